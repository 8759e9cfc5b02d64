// Package deploy has the files with which operators run the programs: an image, systemd units, a Helm
// chart, alert rules and a dashboard. It also has their tests. The test of docker-compose.yml
// (`make compose-test`) has the build tag compose, because it needs a container engine and takes
// minutes. The test of the chart (`make helm`) has the build tag helm, because it needs Helm.
package deploy
