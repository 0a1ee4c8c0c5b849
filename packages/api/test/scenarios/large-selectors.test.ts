import { parseFieldSelector } from '@oarlock/api/selectors/field-selector';
import { parseLabelSelector, selectorFromRequirements, type LabelRequirement } from '@oarlock/api/selectors/label-selector';
import fc from 'fast-check';
import { expect, it } from 'vitest';

/** Returns the milliseconds of processor time that 20,000 matches take. */
function processorMs(match: () => boolean): number {
  const before = process.cpuUsage();
  for (let object = 0; object < 20_000; object++) match();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
const list = (count: number, term: (at: number) => string) => Array.from({ length: count }, (_, at) => term(at)).join(',');

const labels = { app: 'web', tier: 'front', 'pod-template-hash': '5f7c' };
it.each([
  ['absent labels', list(6000, (at) => `!k${at.toString(36)}`), true],
  ['other values of absent labels', list(4000, (at) => `k${at.toString(36)}!=a`), true],
  ['other values of one label', list(4000, (at) => `app!=v${at.toString(36)}`), true],
  ['one label that exists', list(8000, () => 'app'), true],
  ['lower bounds of one label', list(4000, (at) => `app>${at}`), false],
])('a label selector with thousands of requirements for %s does not slow down a list', (_, text, expected) => {
  const selector = parseLabelSelector(text);
  expect(selector.matches(labels)).toBe(expected);
  expect(processorMs(() => selector.matches(labels))).toBeLessThan(300);
});

it('a field selector with thousands of requirements does not slow down a list', () => {
  const selector = parseFieldSelector(list(1500, (at) => `metadata.name!=n${at}`));
  const values = { 'metadata.name': 'web', 'metadata.namespace': 'd' };
  expect(selector.matches(values)).toBe(true);
  expect(selector.matches({ 'metadata.name': 'n7' })).toBe(false);
  expect(processorMs(() => selector.matches(values))).toBeLessThan(300);
});

/** Evaluates one requirement as apimachinery's Requirement.Matches. */
function matchesOne({ key, operator, values }: LabelRequirement, object: Readonly<Record<string, string>>): boolean {
  const value = Object.hasOwn(object, key) ? object[key] : undefined;
  switch (operator) {
    case 'exists':
      return value !== undefined;
    case '!':
      return value === undefined;
    case '!=':
    case 'notin':
      return value === undefined || !values.includes(value);
    case 'gt':
    case 'lt':
      return (
        value !== undefined &&
        /^\d+$/.test(value) &&
        (operator === 'gt' ? Number(value) > Number(values[0]) : Number(value) < Number(values[0]))
      );
    default:
      return value !== undefined && values.includes(value);
  }
}
const key = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'constructor');
const value = fc.constantFrom('1', '2', '3', 'x');
const requirement: fc.Arbitrary<LabelRequirement> = fc.oneof(
  fc.record({ key, operator: fc.constantFrom('exists' as const, '!' as const), values: fc.constant([]) }),
  fc.record({ key, operator: fc.constantFrom('=' as const, '==' as const, '!=' as const), values: value.map((one) => [one]) }),
  fc.record({ key, operator: fc.constantFrom('in' as const, 'notin' as const), values: fc.uniqueArray(value, { minLength: 1 }) }),
  fc.record({ key, operator: fc.constantFrom('gt' as const, 'lt' as const), values: fc.constantFrom(['1'], ['2'], ['3']) }),
);

it('a label selector matches if each of its requirements matches alone', () => {
  fc.assert(
    fc.property(fc.array(requirement, { maxLength: 25, size: 'max' }), fc.array(fc.tuple(key, value)), (requirements, entries) => {
      const object = Object.fromEntries(entries);
      expect(selectorFromRequirements(requirements).matches(object)).toBe(requirements.every((each) => matchesOne(each, object)));
    }),
    { numRuns: 3000 },
  );
});
