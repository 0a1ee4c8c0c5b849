import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@oarlock/primitives/clock';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Containers } from '../../src/containers/containers.ts';
import { PodStore } from '../../src/containers/pod-store.ts';
import { NetworkNamespaces } from '../../src/host/network-namespaces.ts';
import { bootId } from '../../src/host/process-table.ts';
import type { SandboxRecord } from '../../src/protocol/supervisor-protocol.ts';
import { Sandboxes } from '../../src/supervisor/sandboxes.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'oarlock-sandboxes-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

const id = 'a'.repeat(64);
const metadata = { name: 'web', namespace: 'shop', uid: 'u', attempt: 0 };
const config = { metadata, labels: {}, annotations: {} } as SandboxRecord['config'];

/** Returns the state of a sandbox that was ready, as the next supervisor adopts and stores it. */
function adopted(more: { readonly netns?: string; readonly boot?: string }): string {
  const store = new PodStore(directory);
  const options = { clock: systemClock, containers: {} as Containers, networkNamespaces: new NetworkNamespaces(), emit: () => {} };
  const sandboxes = new Sandboxes(store, options);
  const record: SandboxRecord = {
    id,
    metadata,
    labels: {},
    annotations: {},
    state: 'READY',
    createdAt: 0,
    ips: [],
    config,
    boot: bootId(),
    ...more,
  };
  store.saveSandbox(record);
  sandboxes.adopt(record);
  const [stored] = store.load().pods;
  expect(stored?.sandbox).toEqual(sandboxes.get(id));
  return sandboxes.get(id).state;
}

it('adopts a sandbox as ready only if its network exists', () => {
  const netns = join(directory, 'netns');
  writeFileSync(netns, '');
  expect(adopted({ netns })).toBe('READY');
  expect(adopted({})).toBe('READY');
  expect(adopted({ netns: join(directory, 'absent') })).toBe('NOTREADY');
  expect(adopted({ netns, boot: 'of another boot' })).toBe('NOTREADY');
});
