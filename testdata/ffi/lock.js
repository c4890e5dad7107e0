// The library of main.go, for Bun.
import { dlopen } from "bun:ffi";

const path = Buffer.from(process.env.LOCK + "\0");

export function open(library) {
  const { Take, Release } = dlopen(library, {
    Take: { args: ["ptr"], returns: "i32" },
    Release: { returns: "i32" },
  }).symbols;
  return { take: () => Take(path), release: Release };
}
