import { invalid } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import { collectFieldErrors, maxFieldErrors } from '@oarlock/api/field/field-error-list';
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
