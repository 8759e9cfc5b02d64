// Package deploy holds what runs the programs in production, and the test that
// docker-compose.yml works (`make compose-test`; build tag compose, as it takes an
// engine and minutes).
package deploy
