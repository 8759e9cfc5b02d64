// Package deploy has the files with which operators run the programs: an image, additional Compose
// files, systemd units, a Helm chart, files for Prometheus and a dashboard. It also has the tests of
// these files and of docker-compose.yml. The tests of the Compose files (`make compose-test`) have the
// build tag compose, because they need a container engine and take minutes. The tests of the chart
// (`make helm`) have the build tag helm, because they need Helm.
package deploy
