// Package deploy holds the files for running the programs in production. It also holds the test of
// docker-compose.yml (`make compose-test`). The test has the build tag compose, because it
// needs a container engine and takes minutes.
package deploy
