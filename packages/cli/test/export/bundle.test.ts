import { expect, it } from 'vitest';
import { missingPackages } from '../../src/export/bundle.ts';

it('names the packages that an export needs', () => {
  const messages = [
    'Could not resolve "reflect-metadata"',
    'Could not resolve "@oarlock/admission-pod-security/plugin"',
    'Could not resolve "@oarlock/webhook-server/serve"',
    'Could not resolve "zod/v4"',
    'Could not resolve "zod"',
  ];
  expect(missingPackages(messages)).toEqual(['@oarlock/admission-pod-security', '@oarlock/webhook-server', 'reflect-metadata', 'zod']);
});

it('names none for files and other errors', () => {
  expect(missingPackages(['Could not resolve "./rules.ts"', 'Could not resolve "/a/plugin.ts"', 'Unexpected ";"'])).toEqual([]);
});
