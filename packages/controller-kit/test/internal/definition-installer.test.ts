import { customResourceDefinitions } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { Applier } from '../../src/internal/applier.ts';
import { DefinitionInstaller } from '../../src/internal/definition-installer.ts';
import { Website } from '../support/website.ts';

function open() {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  const warnings: string[] = [];
  const log = { ...silentLogger, warn: (_: unknown, message: string) => void warnings.push(message) };
  const newInstaller = (definition = () => Website.definition) =>
    new DefinitionInstaller({ client: api.client(), clock, log, applier: new Applier('kit'), definition });
  const patches = () => api.requests.filter(({ verb }) => verb === 'patch').length;
  return { clock, api, warnings, newInstaller, patches };
}
const name = { name: 'websites.example.com' };

describe('DefinitionInstaller', () => {
  it('applies a definition, and nothing if it is applied already', async () => {
    const { api, clock, newInstaller, patches } = open();
    for (const expected of [1, 1]) {
      const installer = newInstaller();
      installer.start();
      await clock.settle();
      await installer.stop();
      expect(patches()).toBe(expected);
    }
    expect(api.object(customResourceDefinitions, name)?.spec).toEqual(Website.definition.spec);
  });

  it('retries with back-off until the API server accepts it, and warns at once of an invalid definition', async () => {
    const { api, clock, warnings, newInstaller } = open();
    api.failNext({ verb: 'get' }, failure('ServiceUnavailable', 'starting'), 3);
    api.failNext({ verb: 'patch' }, failure('Invalid', 'no'));
    const installer = newInstaller();
    installer.start();
    await clock.advance(100 + 200 + 399);
    expect(warnings).toEqual([]);
    await clock.advance(1);
    expect(warnings).toHaveLength(1);
    expect(api.object(customResourceDefinitions, name)).toBeUndefined();
    await clock.advance(800);
    expect(api.object(customResourceDefinitions, name)).toBeDefined();
    await installer.stop();
  });

  it('stops while it waits', async () => {
    const { api, clock, newInstaller } = open();
    api.failNext({ verb: 'get' }, failure('ServiceUnavailable', 'starting'), 100);
    const installer = newInstaller();
    installer.start();
    await clock.settle();
    await installer.stop();
    const { length } = api.requests;
    await clock.advance(60_000);
    expect(api.requests).toHaveLength(length);
  });
});
