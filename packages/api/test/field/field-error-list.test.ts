import { invalid } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import { collectFieldErrors, maxFieldErrorLength, maxFieldErrors } from '@oarlock/api/field/field-error-list';
import { validateObject } from '@oarlock/api/validation/validate-object';
import { describe, expect, it } from 'vitest';

const what = { group: '', kind: 'ConfigMap', name: 'a' };
const fault = (n: number) => invalid(`data[${n}]`, n, 'is wrong');
const many = (count: number) => Array.from({ length: count }, (_, n) => fault(n));
const more = {
  type: 'FieldValueTooMany' as const,
  field: `data[${maxFieldErrors}]`,
  message: 'Too many: the first 1000 errors are listed, and there are more',
};

describe('the errors of one object', () => {
  it('are all reported up to a thousand', () => {
    expect(collectFieldErrors((errors) => errors.push(...many(maxFieldErrors)))).toEqual(many(maxFieldErrors));
    expect(invalidStatus(what, many(maxFieldErrors)).status.details?.causes).toHaveLength(maxFieldErrors);
  });

  it('end the validation after a thousand, and the list states that', () => {
    let looked = 0;
    const found = collectFieldErrors((errors) => {
      for (; looked < 5_000; looked++) errors.push(fault(looked));
    });
    expect(looked).toBe(maxFieldErrors);
    expect(found).toEqual([...many(maxFieldErrors), more]);
    expect(collectFieldErrors((errors) => errors.push(...many(5_000)))).toEqual(found);
  });

  it('are truncated the same if they were collected elsewhere', () => {
    const causes = [...many(maxFieldErrors), more].map(({ type, field, message }) => ({ reason: type, field, message }));
    for (const found of [many(5_000), [...many(maxFieldErrors), more], [...many(maxFieldErrors), more, fault(1)]])
      expect(invalidStatus(what, found).status.details?.causes).toEqual(causes);
  });

  it('end the validation when their messages together exceed the bound, and the list states that', () => {
    const value = 'x'.repeat(maxFieldErrorLength / 4);
    const large = (n: number) => invalid(`data[${n}]`, value, 'is wrong');
    const found = collectFieldErrors((errors) => {
      for (let n = 0; n < 10; n++) errors.push(large(n));
    });
    const last = { type: 'FieldValueTooMany', field: 'data[4]', message: 'Too many: the first 4 errors are listed, and there are more' };
    expect(found).toEqual([large(0), large(1), large(2), large(3), last]);
    expect(invalidStatus(what, found).status.details?.causes).toHaveLength(5);
  });

  it('do not multiply a large value that breaks many rules', () => {
    const controllers = Array.from({ length: 20_000 }, (_, i) => ({
      apiVersion: 'v1',
      kind: 'A',
      name: `b${i}`,
      uid: 'u',
      controller: true,
    }));
    for (const metadata of [
      { managedFields: [{ operation: 'Update', manager: '\u0001'.repeat(400_000) }] },
      { ownerReferences: controllers },
    ]) {
      const found = validateObject(
        { group: '', version: 'v1', kind: 'ConfigMap' },
        { metadata: { namespace: 'd', name: 'a', ...metadata } },
      );
      expect(found.length).toBeGreaterThan(1);
      expect(found.reduce((sum, { message }) => sum + message.length, 0)).toBeLessThan(8 * maxFieldErrorLength);
    }
  });

  it('do not hide exceptions of the validator', () => {
    expect(() =>
      collectFieldErrors(() => {
        throw new TypeError('mine');
      }),
    ).toThrow(new TypeError('mine'));
  });

  it('bound the validation time of an object with hundreds of thousands of labels', () => {
    const labels = Object.fromEntries(Array.from({ length: 100_000 }, (_, n) => [`k${n}`, 'v!']));
    const found = validateObject({ group: '', version: 'v1', kind: 'ConfigMap' }, { metadata: { namespace: 'd', name: 'a', labels } });
    expect(found).toHaveLength(maxFieldErrors + 1);
    expect(found.at(-1)?.field).toBe('metadata.labels');
  });
});
