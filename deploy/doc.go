// Package deploy has the files with which operators run the programs: an image, systemd units, a Helm
// chart, alert rules and a dashboard. It also has their tests, and the tests of docker-compose.yml. The
// tests of docker-compose.yml (`make compose-test`) have the build tag compose, because they need a
// container engine and take minutes. The tests of the chart (`make helm`) have the build tag helm,
// because they need Helm.
package deploy
