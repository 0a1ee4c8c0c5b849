import { expect, it } from 'vitest';
import { compileDeviceSelector } from '../src/device-selector.ts';

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
