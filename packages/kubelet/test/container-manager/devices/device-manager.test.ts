import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Server, ServerCredentials, type ServerUnaryCall, type ServerWritableStream, type sendUnaryData } from '@grpc/grpc-js';
import { nodes } from '@oarlock/api/resources';
import { UnixClient } from '@oarlock/grpc/unix-client';
import { silentLogger } from '@oarlock/primitives/logger';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DeviceManager } from '../../../src/container-manager/devices/device-manager.ts';
import { devicePluginMessages } from '../../../src/container-manager/devices/device-plugin-messages.ts';
import { app, Bench, isReady, podOf } from '../../support/bench.ts';

interface Listing {
  readonly devices: readonly { readonly ID: string; readonly health: string }[];
}

/** A device plugin whose devices can be changed; it records its allocations. */
class Plugin {
  readonly allocated: string[][] = [];
  readonly #server = new Server();
  readonly #streams = new Set<ServerWritableStream<object, Listing>>();
  #devices: Listing['devices'] = [];

  async start(socket: string): Promise<void> {
    const method = (name: string, request: string, response: string, stream: boolean) => ({
      path: `/v1beta1.DevicePlugin/${name}`,
      requestStream: false,
      responseStream: stream,
      requestSerialize: devicePluginMessages.codec(request).encode,
      requestDeserialize: devicePluginMessages.codec(request).decode,
      responseSerialize: devicePluginMessages.codec(response).encode,
      responseDeserialize: devicePluginMessages.codec(response).decode,
    });
    this.#server.addService(
      {
        ListAndWatch: method('ListAndWatch', 'Empty', 'ListAndWatchResponse', true),
        Allocate: method('Allocate', 'AllocateRequest', 'AllocateResponse', false),
      },
      {
        ListAndWatch: (call: ServerWritableStream<object, Listing>) => {
          this.#streams.add(call);
          call.write({ devices: this.#devices });
        },
        Allocate: (call: ServerUnaryCall<{ containerRequests: { devicesIDs: string[] }[] }, object>, done: sendUnaryData<object>) => {
          const [{ devicesIDs } = { devicesIDs: [] }] = call.request.containerRequests;
          this.allocated.push(devicesIDs);
          const devices = devicesIDs.map((id) => ({ containerPath: `/dev/${id}`, hostPath: `/dev/null`, permissions: 'rw' }));
          done(null, { containerResponses: [{ envs: { GADGETS: devicesIDs.join() }, mounts: [], devices, annotations: {} }] });
        },
      },
    );
    await new Promise<void>((resolve, reject) =>
      this.#server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) => (error ? reject(error) : resolve())),
    );
  }
  has(devices: Readonly<Record<string, boolean>>): void {
    this.#devices = Object.entries(devices).map(([ID, healthy]) => ({ ID, health: healthy ? 'Healthy' : 'Unhealthy' }));
    for (const stream of this.#streams) stream.write({ devices: this.#devices });
  }
  stop(): void {
    this.#server.forceShutdown();
  }
}

const resource = 'example.com/gadget';
const wants = (name: string, count: number) => podOf(name, { containers: [app({ resources: { limits: { [resource]: String(count) } } })] });

describe('DeviceManager', () => {
  let directory = '';
  let plugin: Plugin;
  let bench: Bench | undefined;
  const register = (more: object = {}) =>
    new UnixClient({ socket: join(directory, 'kubelet.sock'), table: devicePluginMessages, timeoutMs: 10_000 }).call(
      'v1beta1.Registration',
      'Register',
      {
        version: 'v1beta1',
        endpoint: 'gadget.sock',
        resourceName: resource,
        ...more,
      },
    );
  const eventually = (holds: () => boolean) =>
    expect.poll(async () => (await bench?.clock.advance(100), holds()), { timeout: 120_000, interval: 10 }).toBe(true);

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'oarlock-dev-'));
    plugin = new Plugin();
    await plugin.start(join(directory, 'gadget.sock'));
    plugin.has({ a: true, b: true, c: false });
  });
  afterEach(async () => {
    plugin.stop();
    await bench?.dispose();
    bench = undefined;
    rmSync(directory, { recursive: true, force: true });
  });

  it('allocates devices to a container whose name is a property of every object', async () => {
    bench = await new Bench({ config: { devicePluginDir: directory } }).start();
    await register();
    await eventually(() => bench?.api.object(nodes, { name: 'node-a' })?.status?.allocatable?.[resource] === '2');
    bench.create(podOf('one', { containers: [app({ name: 'constructor', resources: { limits: { [resource]: '1' } } })] }));
    await eventually(() => isReady(bench?.pod('one')));
    expect(plugin.allocated).toEqual([['a']]);
    expect(Object.hasOwn(Object, resource)).toBe(false);
    bench.create(wants('two', 2));
    await eventually(() => bench?.pod('two')?.status?.phase === 'Failed');
  });

  it('adds devices to the node resources and allocates them to pods until none is free', async () => {
    bench = await new Bench({ config: { devicePluginDir: directory } }).start();
    const { api } = bench;
    await register();
    const amounts = () => {
      const { capacity, allocatable } = api.object(nodes, { name: 'node-a' })?.status ?? {};
      return `${capacity?.[resource]} ${allocatable?.[resource]}`;
    };
    await eventually(() => amounts() === '3 2');
    bench.create(wants('one', 1));
    await eventually(() => isReady(bench?.pod('one')));
    expect(plugin.allocated).toEqual([['a']]);
    bench.create(wants('two', 2));
    await eventually(() => bench?.pod('two')?.status?.phase === 'Failed');
    expect(bench.pod('two')?.status).toMatchObject({
      reason: 'UnexpectedAdmissionError',
      message: `Pod was rejected: Allocate failed due to requested number of devices unavailable for ${resource}. Requested: 2, Available: 1, which is unexpected`,
    });
    await bench.delete('one', 1);
    await eventually(() => bench?.pod('one') === undefined);
    bench.create(wants('three', 2));
    await eventually(() => isReady(bench?.pod('three')));
    expect(plugin.allocated[1]).toEqual(['a', 'b']);
    // the pod status shows the health of allocated devices
    const health = () =>
      bench
        ?.pod('three')
        ?.status?.containerStatuses?.[0]?.allocatedResourcesStatus?.map(
          ({ name, resources = [] }) => `${name} ${resources.map((one) => `${one.resourceID}:${one.health}`).join()}`,
        );
    expect(health()).toEqual([`${resource} a:Healthy,b:Healthy`]);
    plugin.has({ a: true, b: false, c: false });
    await eventually(() => amounts() === '3 1');
    await eventually(() => health()?.[0] === `${resource} a:Healthy,b:Unhealthy`);
    plugin.has({ a: true });
    await eventually(() => health()?.[0] === `${resource} a:Healthy,b:Unknown`);
    plugin.stop();
    await eventually(() => amounts() === '1 0');
    await eventually(() => health()?.[0] === `${resource} a:Unhealthy,b:Unknown`);
  });

  it('keeps the allocations of pods over a restart of the kubelet', async () => {
    const options = { directory, log: silentLogger, signal: new AbortController().signal, changed: () => undefined };
    const first = new DeviceManager(options);
    await first.start();
    await register();
    await expect.poll(() => first.resources.allocatable[resource]?.toString()).toBe('2');
    const pod = { ...wants('web', 1), metadata: { name: 'web', uid: 'u1' } };
    expect(first.allocate(pod)).toBeUndefined();
    await first.stop();
    const second = new DeviceManager(options);
    await second.start();
    expect(second.resources.capacity[resource]?.toString()).toBe('0'); // no plugin has registered yet
    await register();
    await expect.poll(() => second.resources.allocatable[resource]?.toString()).toBe('2');
    expect(second.allocate({ ...wants('other', 2), metadata: { name: 'other', uid: 'u2' } })).toMatchObject({
      reason: 'UnexpectedAdmissionError',
    });
    expect(second.allocate(pod)).toBeUndefined();
    const [container] = pod.spec?.containers ?? [];
    expect(await second.containerDevices(pod, container ?? app(), options.signal)).toMatchObject({
      envs: { GADGETS: 'a' },
      devices: [{ containerPath: '/dev/a', hostPath: '/dev/null', permissions: 'rw' }],
    });
    second.removeStalePods(() => false);
    expect(second.allocate({ ...wants('other', 2), metadata: { name: 'other', uid: 'u2' } })).toBeUndefined();
    await second.stop();
  });

  it('rejects invalid registrations', async () => {
    const manager = new DeviceManager({ directory, log: silentLogger, signal: new AbortController().signal, changed: () => undefined });
    await manager.start();
    await expect(register({ version: 'v1' })).rejects.toThrow(/is not supported by kubelet/);
    await expect(register({ resourceName: 'gadget' })).rejects.toThrow(/is invalid/);
    await expect(register({ endpoint: '../gadget.sock' })).rejects.toThrow(/is not a file name/);
    await manager.stop();
  });
});
