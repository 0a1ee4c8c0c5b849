import { expect, it } from 'vitest';
import { versionFacts } from '../../src/doctor/version.ts';

it('names the version of Kubernetes that is implemented, and of Node', () => {
  expect(versionFacts()).toEqual({
    oarlock: expect.stringMatching(/^\d+\.\d+\.\d+$/),
    kubernetes: expect.stringMatching(/^v1\.36\.0\+oarlock\./),
    node: process.version,
    platform: `${process.platform}/${process.arch}`,
  });
});
