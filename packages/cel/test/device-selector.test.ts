import { describe, expect, it } from 'vitest';
import { compileDeviceSelector, estimateSelectorCost, maxSelectorCost } from '../src/device-selector.ts';

describe('compileDeviceSelector', () => {
  it.each([
    'device.driver == "a.example.com"',
    'cel.bind(a, device.attributes["a.example.com"], a.fast && a.model == "x")',
    'device.capacity["a.example.com"].memory.isGreaterThan(quantity("1Gi"))',
    'device.attributes["a.example.com"].version.isGreaterThan(semver("1.0.0"))',
    'device.attributes["a.example.com"].fast',
  ])('compiles %s', (expression) => expect(compileDeviceSelector(expression).message).toBeUndefined());

  it.each([
    ['device.foo == 1', "compilation failed: ERROR: <input>:1:7: undefined field 'foo'\n | device.foo == 1\n | ......^"],
    ['device.driver', 'must evaluate to bool or the unknown type, not string'],
  ])('rejects %s', (expression, message) => expect(compileDeviceSelector(expression).message).toBe(message));

  it('compiles functions that new expressions must not use if the expression is stored', () => {
    const expression = 'math.greatest(1, 2) == 2 && device.driver.reverse() == "a"';
    expect(compileDeviceSelector(expression).message).toContain("undeclared reference to 'math'");
    expect(compileDeviceSelector(expression, { stored: true }).message).toBeUndefined();
  });
});

const numbers = '[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]';
const nested = (depth: number): string =>
  depth === 0 ? `int('1'.find('[0-9]*')) < 100` : `${numbers}.all(x${depth}, ${nested(depth - 1)})`;

describe('estimateSelectorCost', () => {
  // the estimates of Kubernetes for the same expressions
  it.each([
    ['device.attributes["no-such-domain"].noSuchAttr.isGreaterThan(quantity("0"))', 6],
    ['device.attributes["no-such-domain"]["noSuchAttr"].isGreaterThan(quantity("0"))', 6],
    ['"dra.example.com" in device.attributes', 3],
    ['device.driver == ""', 2],
    ['device.driver == "dra.example.com"', 4],
    ['device.attributes["dra.example.com"].name', 4],
    ['device.attributes["dra.example.com"]["name"]', 4],
    ['cel.bind(dra, device.attributes["dra.example.com"], dra.name)', 15],
    ['device.attributes["dra.example.com"].name > 0', 5],
    ['device.attributes["dra.example.com"].name == "fish"', 5],
    ['device.attributes["dra.example.com"].name.isGreaterThan(semver("0.0.1"))', 6],
    ['device.attributes["dra.example.com"].name.isGreaterThan(semver("v0.0.1", true)) && isSemver("v1.0.0", true)', 7],
    ['device.capacity["dra.example.com"].name.isGreaterThan(quantity("1Ki"))', 6],
    ['"name" in device.capacity["dra.example.com"] && device.capacity["dra.example.com"].name.isGreaterThan(quantity("1Ki"))', 10],
    ['!("name" in device.capacity["dra.example.com"]) || device.capacity["dra.example.com"].name.isGreaterThan(quantity("1Ki"))', 11],
    ['device.attributes["d"].a && device.attributes["d"].b && device.attributes["d"].c', 12],
    ['device.attributes.exists_one(x, x == "dra.example.com")', 164],
    ['device.attributes["dra.example.com"].exists_one(x, x == "services")', 133],
    ['device.attributes["dra.example.com"].services.split("example").size() >= 2', 19],
    ['device.attributes["dra.example.com"].services.matches("[^a]?sym")', 18],
    ['device.capacity.exists_one(x, x == "dra.example.com")', 164],
    ['device.capacity["dra.example.com"].exists_one(x, x == "memory")', 133],
    ['device.allowMultipleAllocations == true', 3],
    [nested(7), 85_555_551],
  ])('estimates %s', (expression, cost) => {
    const { program, message } = compileDeviceSelector(expression);
    expect(message).toBeUndefined();
    expect(program && estimateSelectorCost(program)).toBe(cost);
  });

  it('exceeds the limit only for the expression with seven nested loops', () => {
    const costOf = (depth: number) => {
      const { program } = compileDeviceSelector(nested(depth));
      return program === undefined ? undefined : estimateSelectorCost(program);
    };
    expect(costOf(5)).toBeLessThan(maxSelectorCost);
    expect(costOf(7)).toBeGreaterThan(maxSelectorCost);
  });
});
