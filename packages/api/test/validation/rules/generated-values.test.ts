import { afterAll, describe, expect, it } from 'vitest';
import { acceptedFields } from './accepted-fields.ts';
import { errorsWith, generatedFields, isRejected, type GeneratedField } from './generated-values.ts';

const fields = new Map<string, GeneratedField[]>();
for (const field of generatedFields()) {
  const title = `${field.kind.group}/${field.kind.version}/${field.kind.kind}`;
  fields.set(title, [...(fields.get(title) ?? []), field]);
}

describe('fields with an invalid value', () => {
  let rejected = 0;
  let total = 0;

  afterAll(() => console.log(`Generated invalid values: ${String(rejected)} of ${String(total)} fields reject them`));

  it.each([...fields])('%s', (title, all) => {
    const accepted = all.filter((field) => !isRejected(field, errorsWith(field)));
    rejected += all.length - accepted.length;
    total += all.length;
    const listed = acceptedFields[title] ?? [];
    const isListed = (path: string) => listed.some((entry) => (entry.endsWith('*') ? path.startsWith(entry.slice(0, -1)) : path === entry));
    expect(accepted.map(({ path }) => path).filter((path) => !isListed(path))).toEqual([]);
    const paths = new Set(accepted.map(({ path }) => path));
    expect(listed.filter((path) => !path.endsWith('*') && !paths.has(path))).toEqual([]);
  });
});
