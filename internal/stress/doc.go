// Package stress has nothing but tests: they let very many contend for locks, and
// count. 'make soak' runs them for as long as wanted.
package stress
