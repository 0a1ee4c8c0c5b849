import { invalid, invalidStatus } from '@oarlock/api/field-error';
import { fieldErrors, mostFieldErrors } from '@oarlock/api/field-errors';
import { validateObject } from '@oarlock/api/validation';
import { describe, expect, it } from 'vitest';

const what = { group: '', kind: 'ConfigMap', name: 'a' };
const fault = (n: number) => invalid(`data[${n}]`, n, 'is wrong');
const many = (count: number) => Array.from({ length: count }, (_, n) => fault(n));
const more = {
  type: 'FieldValueTooMany' as const,
  field: `data[${mostFieldErrors}]`,
  message: 'Too many: the first 1000 errors are listed, and there are more',
};

describe('the faults of one object', () => {
  it('are all listed up to a thousand', () => {
    expect(fieldErrors((errors) => errors.push(...many(mostFieldErrors)))).toEqual(many(mostFieldErrors));
    expect(invalidStatus(what, many(mostFieldErrors)).status.details?.causes).toHaveLength(mostFieldErrors);
  });

  it('are no more looked for after that, and the list says so', () => {
    let looked = 0;
    const found = fieldErrors((errors) => {
      for (; looked < 5_000; looked++) errors.push(fault(looked));
    });
    expect(looked).toBe(mostFieldErrors);
    expect(found).toEqual([...many(mostFieldErrors), more]);
    expect(fieldErrors((errors) => errors.push(...many(5_000)))).toEqual(found);
  });

  it('are listed alike where they were found elsewhere', () => {
    const causes = [...many(mostFieldErrors), more].map(({ type, field, message }) => ({ reason: type, field, message }));
    for (const found of [many(5_000), [...many(mostFieldErrors), more], [...many(mostFieldErrors), more, fault(1)]])
      expect(invalidStatus(what, found).status.details?.causes).toEqual(causes);
  });

  it('hide no fault of the one who looks', () => {
    expect(() =>
      fieldErrors(() => {
        throw new TypeError('mine');
      }),
    ).toThrow(new TypeError('mine'));
  });

  it('end the look at an object: labels by the hundred thousand', () => {
    const labels = Object.fromEntries(Array.from({ length: 100_000 }, (_, n) => [`k${n}`, 'v!']));
    const found = validateObject({ group: '', version: 'v1', kind: 'ConfigMap' }, { metadata: { namespace: 'd', name: 'a', labels } });
    expect(found).toHaveLength(mostFieldErrors + 1);
    expect(found.at(-1)?.field).toBe('metadata.labels');
  });
});
