import { expect, it } from 'vitest';
import { pemBlocks } from '../../src/values/pem.ts';

const blocks = (text: string) => pemBlocks(Buffer.from(text).toString('base64')).map(({ type, bytes }) => [type, bytes.toString()]);

it('finds the well-formed blocks of a PEM file', () => {
  const text = 'notes\n-----BEGIN A-----\neA==\n-----END A-----\n-----BEGIN B C-----\r\nQUJD\r\nREVG\r\n-----END B C-----';
  expect(blocks(text)).toEqual([
    ['A', 'x'],
    ['B C', 'ABCDEF'],
  ]);
  expect(blocks('-----BEGIN A-----\neA==\n-----END B-----\n')).toEqual([]);
  expect(blocks('-----BEGIN A-----\neA==\n')).toEqual([]);
  expect(pemBlocks(undefined)).toEqual([]);
});

it('separates headers from the content of a block', () => {
  const text = '-----BEGIN A-----\nkey: value\n\neA==\n-----END A-----\n-----BEGIN A-----\neA==\n-----END A-----\n';
  expect(pemBlocks(Buffer.from(text).toString('base64')).map(({ hasHeaders, bytes }) => [hasHeaders, bytes.toString()])).toEqual([
    [true, 'x'],
    [false, 'x'],
  ]);
});
