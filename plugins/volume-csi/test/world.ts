import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { csiNodes, nodes, persistentVolumeClaims, storageClasses } from '@oarlock/api/resources';
import type { PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import { driver } from '@oarlock/csi-hostpath/driver';
import { systemClock } from '@oarlock/kernel/clock';
import { silentLogger } from '@oarlock/kernel/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { vi } from 'vitest';
import { volumeCsiConfig } from '../src/config.ts';
import { VolumeCsi } from '../src/volume-csi.ts';

export const driverName = 'hostpath.csi.oarlock.dev';

/** An API in memory, a real driver on a socket, and the plugin between them. */
export class World implements AsyncDisposable {
  readonly api: MemoryApi = memoryApi({ clock: new FakeClock() });
  readonly directory: string;
  readonly events: string[] = [];
  #server: { close(): Promise<void> } | undefined;
  #plugins: VolumeCsi[] = [];

  private constructor(directory: string) {
    this.directory = directory;
  }

  static async open(): Promise<World> {
    const world = new World(await mkdtemp(join(tmpdir(), 'volume-csi-')));
    world.api.seed(nodes, { metadata: { name: 'here' } });
    await world.startDriver();
    return world;
  }

  async startDriver(): Promise<void> {
    this.#server = await driver({
      name: driverName,
      endpoint: join(this.directory, 'csi.sock'),
      nodeId: 'here',
      dataDir: join(this.directory, 'driver'),
      capacityBytes: 10 * 2 ** 30,
      version: 'test',
      now: Date.now,
    });
  }
  async stopDriver(): Promise<void> {
    await this.#server?.close();
  }

  /** A plugin as a new process has it, when it has met the driver. */
  async plugin(): Promise<VolumeCsi> {
    const made = new VolumeCsi({
      config: volumeCsiConfig.parse({
        drivers: [{ socket: join(this.directory, 'csi.sock'), provision: true, csiDriver: {}, storageClass: { name: 'standard' } }],
      }),
      client: this.api.client(),
      informers: this.api.informers,
      events: { recorder: () => ({ event: (_about, type, reason, message) => void this.events.push(`${type} ${reason} ${message}`) }) },
      clock: systemClock,
      log: silentLogger,
      dataDir: join(this.directory, 'plugin'),
    });
    this.#plugins.push(made);
    made.begin('here');
    await vi.waitFor(() => {
      const registered = this.api.object(csiNodes, { name: 'here' })?.spec.drivers.length === 1;
      if (!registered || made.names.length === 0) throw new Error('not registered yet');
    }, waiting);
    return made;
  }

  /** A claim as the scheduler and the volume binder leave it to a provisioner. */
  async claim(
    name: string,
    more: Partial<PersistentVolumeClaim['spec']> = {},
    selected: string | null = 'here',
  ): Promise<PersistentVolumeClaim> {
    return this.api.client().create(persistentVolumeClaims, {
      metadata: {
        namespace: 'default',
        name,
        annotations: {
          'volume.kubernetes.io/storage-provisioner': driverName,
          ...(selected !== null && { 'volume.kubernetes.io/selected-node': selected }),
        },
      },
      spec: { accessModes: ['ReadWriteOnce'], storageClassName: 'standard', resources: { requests: { storage: '1Gi' } }, ...more },
    });
  }

  get hasClass(): boolean {
    return this.api.object(storageClasses, { name: 'standard' }) !== undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const plugin of this.#plugins) await plugin.stop();
    await this.stopDriver();
    await this.api.stop();
    await rm(this.directory, { recursive: true, force: true });
  }
}

export const waiting = { timeout: 20_000, interval: 10 };
