import { describe, expect, it } from 'vitest';
import { findUntoleratedTaint, isTolerated, toleratesDeviceTaint, toleratesTaint } from '../../src/component-helpers/tolerations.ts';
import type { Taint, Toleration } from '../../src/generated/types/core-v1.ts';

const taint: Taint = { key: 'gpu', value: 'yes', effect: 'NoSchedule' };

describe('toleratesTaint', () => {
  it.each<[string, Toleration, boolean]>([
    ['the same key, value and effect', { key: 'gpu', operator: 'Equal', value: 'yes', effect: 'NoSchedule' }, true],
    ['another key', { key: 'disk', value: 'yes' }, false],
    ['another value', { key: 'gpu', value: 'no' }, false],
    ['another effect', { key: 'gpu', value: 'yes', effect: 'NoExecute' }, false],
    ['any effect if the toleration has none', { key: 'gpu', value: 'yes' }, true],
    ['any value with Exists', { key: 'gpu', operator: 'Exists' }, true],
    ['everything with Exists and no key', { operator: 'Exists' }, true],
    ['the value alone with Equal and no key', { operator: 'Equal', value: 'yes' }, true],
    ['another value with Equal and no key', { operator: 'Equal', value: 'no' }, false],
    ['nothing with an unknown operator', { key: 'gpu', operator: 'Like', value: 'yes' }, false],
  ])('matches %s', (_name, toleration, expected) => {
    expect(toleratesTaint(toleration, taint)).toBe(expected);
  });

  it('reads an absent value as the empty string', () => {
    expect(toleratesTaint({ key: 'gpu' }, { key: 'gpu', effect: 'NoSchedule' })).toBe(true);
    expect(toleratesTaint({ key: 'gpu', operator: '', value: '' }, { key: 'gpu', effect: 'NoSchedule' })).toBe(true);
  });

  it.each([
    ['10', 'Gt', '9', true],
    ['10', 'Gt', '10', false],
    ['10', 'Lt', '11', true],
    ['010', 'Lt', '+11', true],
    ['-5', 'Gt', '-6', true],
    ['10', 'Lt', '9223372036854775807', true],
    ['10', 'Lt', '9223372036854775808', false],
    ['1.5', 'Gt', '1', false],
    ['0x10', 'Gt', '1', false],
    ['', 'Lt', '1', false],
  ])('compares int64 values: taint %s %s %s is %s', (value, operator, bound, expected) => {
    expect(toleratesTaint({ key: 'sla', operator, value: bound }, { key: 'sla', value, effect: 'NoSchedule' })).toBe(expected);
  });
});

describe('toleratesDeviceTaint', () => {
  const deviceTaint = { key: 'sla', value: '10', effect: 'NoSchedule' };
  it('supports Equal and Exists', () => {
    expect(toleratesDeviceTaint({ key: 'sla', operator: 'Equal', value: '10' }, deviceTaint)).toBe(true);
    expect(toleratesDeviceTaint({ operator: 'Exists' }, deviceTaint)).toBe(true);
  });
  it('does not support Gt and Lt', () => {
    expect(toleratesDeviceTaint({ key: 'sla', operator: 'Gt', value: '9' }, deviceTaint)).toBe(false);
    expect(toleratesDeviceTaint({ key: 'sla', operator: 'Lt', value: '11' }, deviceTaint)).toBe(false);
  });
});

describe('a list of tolerations', () => {
  it('tolerates a taint if one of them does', () => {
    expect(
      isTolerated(taint, [
        { key: 'disk', operator: 'Exists' },
        { key: 'gpu', operator: 'Exists' },
      ]),
    ).toBe(true);
    expect(isTolerated(taint, [])).toBe(false);
  });

  it('leaves the first taint of the given effects that none tolerates', () => {
    const other: Taint = { key: 'disk', effect: 'NoExecute' };
    const effects = new Set(['NoSchedule', 'NoExecute']);
    expect(findUntoleratedTaint([taint, other], [{ key: 'gpu', operator: 'Exists' }], effects)).toBe(other);
    expect(findUntoleratedTaint([taint, other], [], new Set(['PreferNoSchedule']))).toBeUndefined();
    expect(findUntoleratedTaint(undefined, [], effects)).toBeUndefined();
  });
});
