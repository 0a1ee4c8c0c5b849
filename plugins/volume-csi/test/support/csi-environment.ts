import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  csiNodes,
  customResourceDefinitions,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  storageClasses,
} from '@oarlock/api/resources';
import type { PersistentVolume, PersistentVolumeClaim, Pod, Volume } from '@oarlock/api/types/core-v1';
import { driver, type DriverOptions } from '@oarlock/csi-hostpath/driver';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { vi } from 'vitest';
import { volumeCsiConfig } from '../../src/driver/config.ts';
import type { VolumeRequest } from '@oarlock/spi/volume';
import { groupDefinitions } from '../../src/snapshot-api/group-definitions.ts';
import { populatorDefinition, snapshotDefinitions } from '../../src/snapshot-api/snapshot-definitions.ts';
import { VolumeCsi } from '../../src/volume-csi.ts';

export const driverName = 'hostpath.csi.oarlock.dev';

export interface WorldOptions {
  readonly driver?: Partial<DriverOptions>;
  /** Another driver than csi-hostpath, and its name. */
  readonly other?: { readonly name: string; serve(endpoint: string, directory: string): Promise<{ close(): Promise<void> }> };
  /** False if the API does not serve the snapshot kinds at the start. */
  readonly servesSnapshots?: boolean;
  /** Overrides of the driver's CSIDriver. */
  readonly csiDriver?: object;
  /** The SELinux context of files of containers on the node; absent on a node without SELinux. */
  readonly fileContext?: string;
}

/** An in-memory API, a real driver on a socket, and the plugin. */
export class World implements AsyncDisposable {
  readonly api: MemoryApi = memoryApi({ clock: new FakeClock() });
  readonly directory: string;
  readonly events: string[] = [];
  #server: { close(): Promise<void> } | undefined;
  #plugins: VolumeCsi[] = [];

  readonly #options: WorldOptions;

  private constructor(directory: string, options: WorldOptions) {
    this.directory = directory;
    this.#options = options;
  }

  static async open(options: WorldOptions = {}): Promise<World> {
    const world = new World(await mkdtemp(join(tmpdir(), 'volume-csi-')), options);
    world.api.seed(nodes, { metadata: { name: 'here' } });
    // the snapshot kinds, as served by an API server
    for (const definition of options.servesSnapshots === false ? [] : [...snapshotDefinitions, populatorDefinition, ...groupDefinitions])
      world.api.seed(customResourceDefinitions, {
        ...definition,
        status: { conditions: [{ type: 'Established', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' }] },
      });
    await world.startDriver();
    return world;
  }

  get driverName(): string {
    return this.#options.other?.name ?? driverName;
  }

  async startDriver(): Promise<void> {
    const endpoint = join(this.directory, 'csi.sock');
    const { other } = this.#options;
    if (other !== undefined) {
      this.#server = await other.serve(endpoint, join(this.directory, 'driver'));
      return;
    }
    this.#server = await driver({
      name: driverName,
      endpoint,
      nodeId: 'here',
      dataDir: join(this.directory, 'driver'),
      capacityBytes: 10 * 2 ** 30,
      version: 'test',
      now: Date.now,
      ...this.#options.driver,
    });
  }
  async stopDriver(): Promise<void> {
    await this.#server?.close();
  }

  /** Starts a plugin as a new process would, and waits until it has connected to the driver. */
  async plugin(config: object = {}): Promise<VolumeCsi> {
    const csi = new VolumeCsi({
      config: volumeCsiConfig.parse({
        drivers: [
          {
            socket: join(this.directory, 'csi.sock'),
            provision: true,
            csiDriver: this.#options.csiDriver ?? {},
            storageClass: { name: 'standard' },
          },
        ],
        ...config,
      }),
      client: this.api.client(),
      informers: this.api.informers,
      events: { recorder: () => ({ event: (_about, type, reason, message) => void this.events.push(`${type} ${reason} ${message}`) }) },
      clock: systemClock,
      log: silentLogger,
      dataDir: join(this.directory, 'plugin'),
      fileContext: async () => this.#options.fileContext,
    });
    this.#plugins.push(csi);
    csi.setNodeName('here');
    await vi.waitFor(() => {
      const registered = this.api.object(csiNodes, { name: 'here' })?.spec.drivers.some(({ name }) => name === this.driverName) === true;
      if (!registered || !csi.names.includes(this.driverName)) throw new Error('not registered yet');
    }, waiting);
    return csi;
  }

  /** Creates a claim as the scheduler and the volume binder leave it to a provisioner. */
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
          'volume.kubernetes.io/storage-provisioner': this.driverName,
          ...(selected !== null && { 'volume.kubernetes.io/selected-node': selected }),
        },
      },
      spec: { accessModes: ['ReadWriteOnce'], storageClassName: 'standard', resources: { requests: { storage: '1Gi' } }, ...more },
    });
  }

  /** Returns the volume that was created for a claim. */
  volumeOf({ metadata }: PersistentVolumeClaim): Promise<PersistentVolume> {
    return until(() => this.api.object(persistentVolumes, { name: `pvc-${metadata?.uid}` }));
  }

  /** Binds a claim to its volume, as the volume binder does. */
  async bind(claim: PersistentVolumeClaim): Promise<PersistentVolume> {
    const volume = await this.volumeOf(claim);
    const client = this.api.client();
    const name = { namespace: 'default', name: claim.metadata?.name ?? '' };
    await client.patch(persistentVolumeClaims, name, 'merge', { spec: { volumeName: volume.metadata?.name } });
    const status = { phase: 'Bound', capacity: volume.spec?.capacity };
    await client.patch(persistentVolumeClaims, name, 'merge', { status }, { subresource: 'status' });
    const bound = { status: { phase: 'Bound' } };
    await client.patch(persistentVolumes, { name: volume.metadata?.name ?? '' }, 'merge', bound, { subresource: 'status' });
    return volume;
  }

  /** Returns the request of a kubelet for a volume of a pod. */
  request(pod: string, volume: Volume, persistentVolume?: PersistentVolume, more: Partial<VolumeRequest> = {}): VolumeRequest {
    const object: Pod = { metadata: { namespace: 'default', name: pod, uid: `uid-${pod}` }, spec: { nodeName: 'here', containers: [] } };
    return {
      pod: object,
      volume,
      path: join(this.directory, 'pods', pod, volume.name),
      readOnly: false,
      ...(persistentVolume && { persistentVolume }),
      ...more,
    };
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

/** Polls until `work` returns a value. */
export function until<T>(look: () => T | undefined | Promise<T | undefined>): Promise<T> {
  return vi.waitFor(async () => {
    const found = await look();
    if (found === undefined) throw new Error('not yet');
    return found;
  }, waiting);
}

export const waiting = { timeout: 120_000, interval: 10 };
