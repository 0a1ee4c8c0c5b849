import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Server, ServerCredentials, type ServerUnaryCall, type ServerWritableStream, type sendUnaryData } from '@grpc/grpc-js';
import { nodes } from '@oarlock/api/resources';
import { UnixClient } from '@oarlock/grpc/unix-client';
import { silentLogger } from '@oarlock/kernel/logger';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DeviceManager } from '../src/devices/device-manager.ts';
import { deviceMessages } from '../src/devices/device-messages.ts';
import { app, Bench, isReady, podOf } from './bench.ts';

interface Listing {
  readonly devices: readonly { readonly ID: string; readonly health: string }[];
}

/** A device plugin: what it has can be changed, what it gave is remembered. */
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
      requestSerialize: deviceMessages.codec(request).encode,
      requestDeserialize: deviceMessages.codec(request).decode,
      responseSerialize: deviceMessages.codec(response).encode,
      responseDeserialize: deviceMessages.codec(response).decode,
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

describe('devices of plugins', () => {
  let directory = '';
  let plugin: Plugin;
  let bench: Bench | undefined;
  const register = (more: object = {}) =>
    new UnixClient({ socket: join(directory, 'kubelet.sock'), table: deviceMessages, timeoutMs: 10_000 }).call(
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

  it('are counted by the node, and given to pods as long as there are any', async () => {
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
    // how they are is told of the pods that have them
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

  it('stay with their pods when the kubelet is started anew', async () => {
    const options = { directory, log: silentLogger, signal: new AbortController().signal, changed: () => undefined };
    const first = new DeviceManager(options);
    await first.start();
    await register();
    await expect.poll(() => first.amounts.allocatable[resource]?.toString()).toBe('2');
    const pod = { ...wants('web', 1), metadata: { name: 'web', uid: 'u1' } };
    expect(first.take(pod)).toBeUndefined();
    await first.stop();
    const second = new DeviceManager(options);
    await second.start();
    expect(second.amounts.capacity[resource]?.toString()).toBe('0'); // nobody has registered yet
    await register();
    await expect.poll(() => second.amounts.allocatable[resource]?.toString()).toBe('2');
    expect(second.take({ ...wants('other', 2), metadata: { name: 'other', uid: 'u2' } })).toMatchObject({
      reason: 'UnexpectedAdmissionError',
    });
    expect(second.take(pod)).toBeUndefined();
    const [container] = pod.spec?.containers ?? [];
    expect(await second.prepare(pod, container ?? app(), options.signal)).toMatchObject({
      envs: { GADGETS: 'a' },
      devices: [{ containerPath: '/dev/a', hostPath: '/dev/null', permissions: 'rw' }],
    });
    second.keep(() => false);
    expect(second.take({ ...wants('other', 2), metadata: { name: 'other', uid: 'u2' } })).toBeUndefined();
    await second.stop();
  });

  it('are not taken from plugins that make no sense', async () => {
    const manager = new DeviceManager({ directory, log: silentLogger, signal: new AbortController().signal, changed: () => undefined });
    await manager.start();
    await expect(register({ version: 'v1' })).rejects.toThrow(/is not supported by kubelet/);
    await expect(register({ resourceName: 'gadget' })).rejects.toThrow(/is invalid/);
    await expect(register({ endpoint: '../gadget.sock' })).rejects.toThrow(/is no file name/);
    await manager.stop();
  });
});
