import { expect, it } from 'vitest';
import { placesOf } from '../../../../src/nodes/rootless/relay/places.ts';

it('has as many places as the process may have files', () => {
  const limits = (files: string) => `Limit  Soft Limit  Hard Limit  Units\nMax open files            ${files}   1048576   files\n`;
  expect(placesOf(limits('1048576'))).toBe(8192);
  expect(placesOf(limits('4096'))).toBe(896);
  expect(placesOf(limits('256'))).toBe(1);
  expect(placesOf(limits('unlimited'))).toBe(8192);
});
