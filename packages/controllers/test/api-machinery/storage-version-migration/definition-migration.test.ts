import { resource } from '@oarlock/api/resource';
import { customResourceDefinitions } from '@oarlock/api/resources';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import { DefinitionMigration } from '@oarlock/controllers/api-machinery/storage-version-migration/definition-migration';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const name = 'widgets.example.com';
const version = (of: string, storage: boolean) => ({ name: of, served: true, storage });
const definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name, generation: 2 },
  spec: {
    group: 'example.com',
    scope: 'Cluster',
    names: { plural: 'widgets', kind: 'Widget' },
    versions: [version('v1', false), version('v2', true)],
  },
  status: { storedVersions: ['v1', 'v2'], conditions: [{ type: 'Established', status: 'True' }] },
} as CustomResourceDefinition;

let api: MemoryApi;
let clock: FakeClock;
beforeEach(() => {
  clock = new FakeClock();
  api = memoryApi({ clock });
});
afterEach(() => api.stop());
const migration = () => new DefinitionMigration(api.client(), resource('example.com', 'v2', 'widgets', 'Widget', false), () => clock.now());
const status = () => api.object(customResourceDefinitions, { name })?.status;

describe('DefinitionMigration', () => {
  it('removes the stored versions that were migrated', async () => {
    api.seed(customResourceDefinitions, definition);
    await migration().start('m');
    expect(status()?.storedVersions).toEqual(['v1', 'v2']);
    expect(status()?.conditions).toMatchObject([
      { type: 'Established', status: 'True' },
      { type: 'StorageMigrating', status: 'True', reason: 'MigrationRunning', message: 'Migration m is running', observedGeneration: 2 },
    ]);
    await migration().finish();
    expect(status()?.storedVersions).toEqual(['v2']);
    expect(status()?.conditions?.[1]).toMatchObject({
      status: 'False',
      reason: 'MigrationSucceeded',
      message: 'The migration has succeeded and the stored versions have been updated',
    });
  });

  it('keeps the stored versions of a definition that changed during the migration', async () => {
    api.seed(customResourceDefinitions, definition);
    await migration().start('m');
    const started = api.object(customResourceDefinitions, { name });
    api.seed(customResourceDefinitions, { ...definition, ...started, metadata: { ...started?.metadata, name, generation: 3 } });
    await migration().finish();
    expect(status()?.storedVersions).toEqual(['v1', 'v2']);
    expect(status()?.conditions?.[1]?.message).toContain('due to a generation mismatch');
  });

  it('ignores resources without a definition', async () => {
    await migration().start('m');
    await migration().finish();
    expect(status()).toBeUndefined();
  });
});
