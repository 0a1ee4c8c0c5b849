import { expect, it } from 'vitest';
import { signalNumber } from '../../../src/containers/internal/signal-number.ts';

it('signalNumber accepts names, short names, numbers and real-time offsets', () => {
  expect(['SIGTERM', 'term', '9', 'SIGRTMIN+3'].map(signalNumber)).toEqual([15, 15, 9, 37]);
  for (const bad of ['', 'SIGNOPE', '0', '99', 'SIGRTMIN+99'])
    expect(() => signalNumber(bad)).toThrow(expect.objectContaining({ code: 'InvalidArgument' }));
});
