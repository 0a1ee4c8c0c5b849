import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { registrationTable } from '@oarlock/grpc/registration-client';
import { serveUnix } from '@oarlock/grpc/unix-server';
import { resourceClaims } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { ContainerConfig } from '@oarlock/spi/runtime';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { draPluginMessages, type ClaimReference } from '../../../src/container-manager/dra/dra-plugin-messages.ts';
import { app, Bench, podOf } from '../../support/bench.ts';

const driver = 'gpu.example.com';

/** A DRA driver that prepares every claim and records the calls. */
class Driver {
  readonly prepared: string[] = [];
  readonly unprepared: string[] = [];
  failure: string | undefined;
  /** The number of registrations that the kubelet has confirmed. */
  registrations = 0;
  readonly #close: (() => Promise<void>)[] = [];

  /** @param instance distinguishes the sockets of several instances */
  async start(
    directory: string,
    { name = driver, instance = '' }: { readonly name?: string; readonly instance?: string } = {},
  ): Promise<void> {
    const endpoint = join(directory, `dra${instance}.sock`);
    const of = (claims: readonly ClaimReference[], answer: (claim: ClaimReference) => object) => ({
      claims: Object.fromEntries(claims.map((claim) => [claim.uid, answer(claim)])),
    });
    const plugin = await serveUnix({
      socket: endpoint,
      table: draPluginMessages,
      services: {
        'k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin': {
          NodePrepareResources: ({ claims }: { readonly claims: readonly ClaimReference[] }) =>
            of(claims, (claim) => {
              if (this.failure !== undefined) return { error: this.failure };
              this.prepared.push(claim.name);
              const device = (request: string) => ({ requestNames: [request], cdiDeviceIds: [`${driver}/gpu=${claim.name}-${request}`] });
              return { devices: [device('big'), device('small')] };
            }),
          NodeUnprepareResources: ({ claims }: { readonly claims: readonly ClaimReference[] }) =>
            of(claims, (claim) => {
              this.unprepared.push(claim.name);
              return {};
            }),
        },
      },
    });
    const registration = await serveUnix({
      socket: join(directory, 'registry', `${name}${instance}-reg.sock`),
      table: registrationTable,
      types: { GetInfo: ['InfoRequest', 'PluginInfo'], NotifyRegistrationStatus: ['RegistrationStatus', 'RegistrationStatusResponse'] },
      services: {
        'pluginregistration.Registration': {
          GetInfo: () => ({ type: 'DRAPlugin', name, endpoint, supportedVersions: ['v1.DRAPlugin'] }),
          NotifyRegistrationStatus: () => {
            this.registrations += 1;
            return {};
          },
        },
      },
    });
    this.#close.push(
      () => plugin.close(),
      () => registration.close(),
    );
  }
  async stop(): Promise<void> {
    for (const close of this.#close.splice(0)) await close();
  }
}

describe('DRAManager', () => {
  let directory: string;
  let bench: Bench;
  const plugin = { driver: new Driver() };
  const created: ContainerConfig[] = [];
  const eventually = (holds: () => boolean) =>
    expect.poll(async () => (await bench.clock.advance(1000), holds()), { timeout: 120_000, interval: 10 }).toBe(true);
  const phase = (name: string) => bench.pod(name)?.status?.phase;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-dra-'));
    plugin.driver = new Driver();
    created.length = 0;
    bench = new Bench({
      config: { pluginRegistryDir: join(directory, 'registry') },
      wrap: (runtime) =>
        new Proxy(runtime, {
          get: (target, name) => {
            const member: unknown = Reflect.get(target, name, target);
            if (typeof member !== 'function') return member;
            return (...args: unknown[]) => {
              if (name === 'createContainer') created.push(args[1] as ContainerConfig);
              return (member as (...all: unknown[]) => unknown).apply(target, args);
            };
          },
        }),
    });
  });
  afterEach(async () => {
    await bench.dispose();
    await plugin.driver.stop();
    await rm(directory, { recursive: true, force: true });
  });
  const claim = (name: string, pods: readonly string[], allocated = true) =>
    bench.api.seed(resourceClaims, {
      metadata: { name, namespace: 'default' },
      spec: {},
      status: {
        ...(allocated && { allocation: { devices: { results: [{ driver, pool: 'p', device: 'd', request: 'big' }] } } }),
        reservedFor: pods.map((pod) => ({ resource: 'pods', name: pod, uid: bench.pod(pod)?.metadata?.uid ?? '' })),
      },
    });
  const wants = (name: string, claimName: string, request?: string): Pod =>
    podOf(name, {
      resourceClaims: [{ name: 'gpu', resourceClaimName: claimName }],
      containers: [app({ resources: { claims: [{ name: 'gpu', ...(request !== undefined && { request }) }] } })],
    });

  it('prepares claims before containers start, passes their devices on, and unprepares them after the last pod', async () => {
    await bench.start();
    bench.create(wants('one', 'shared'));
    bench.create(wants('two', 'shared', 'small'));
    claim('shared', ['one', 'two']);
    await plugin.driver.start(directory);
    await eventually(() => phase('one') === 'Running' && phase('two') === 'Running');
    expect(plugin.driver.prepared.every((name) => name === 'shared')).toBe(true);
    expect(created.map(({ cdiDevices }) => cdiDevices).sort()).toEqual([
      [`${driver}/gpu=shared-big`, `${driver}/gpu=shared-small`],
      [`${driver}/gpu=shared-small`],
    ]);
    await bench.delete('one', 1);
    await eventually(() => bench.pod('one') === undefined);
    expect(plugin.driver.unprepared).toEqual([]);
    await bench.restart();
    await bench.delete('two', 1);
    await eventually(() => bench.pod('two') === undefined);
    expect(plugin.driver.unprepared).toEqual(['shared']);
    expect(JSON.parse(await readFile(join(bench.directory, 'dra_manager_state'), 'utf8'))).toEqual([]);
  });

  it('passes devices of extended resources to the containers in the pod status', async () => {
    await bench.start();
    const pod = podOf('web');
    const requestMappings = [{ containerName: pod.spec?.containers[0]?.name ?? '', resourceName: 'example.com/gpu', requestName: 'small' }];
    bench.create({ ...pod, status: { ...pod.status, extendedResourceClaimStatus: { resourceClaimName: 'mine', requestMappings } } });
    claim('mine', ['web']);
    await plugin.driver.start(directory);
    await eventually(() => phase('web') === 'Running');
    expect(created.map(({ cdiDevices }) => cdiDevices)).toEqual([[`${driver}/gpu=mine-small`]]);
    expect(bench.pod('web')?.status?.extendedResourceClaimStatus?.resourceClaimName).toBe('mine');
  });

  it('keeps a driver whose former instance is removed after the new one was registered', async () => {
    await bench.start();
    const [former, other] = [new Driver(), new Driver()];
    await former.start(directory, { instance: '-former' });
    await eventually(() => former.registrations === 1);
    await plugin.driver.start(directory);
    await eventually(() => plugin.driver.registrations === 1);
    await former.stop();
    // a later registration: the watcher has seen before it that the socket of the former instance is gone
    await other.start(directory, { name: 'other.example.com', instance: '-other' });
    await eventually(() => other.registrations === 1);
    bench.create(wants('web', 'mine'));
    claim('mine', ['web']);
    await eventually(() => phase('web') === 'Running');
    expect([former.prepared, plugin.driver.prepared]).toEqual([[], ['mine']]);
    await plugin.driver.stop();
    await other.stop();
  });

  it('keeps a pod waiting without a driver, an allocation or a reservation, and while the driver fails', async () => {
    await bench.start();
    const failed = (message: string) =>
      eventually(() => bench.events.of('FailedPrepareDynamicResources').some((line) => line.includes(message)));
    bench.create(wants('web', 'mine'));
    await failed('failed to fetch ResourceClaim mine referenced by pod web: not found');
    claim('mine', []);
    await failed('is not allowed to use ResourceClaim mine');
    claim('mine', ['web'], false);
    await failed('ResourceClaim mine is not allocated');
    claim('mine', ['web']);
    await failed(`DRA driver ${driver} is not registered`);
    plugin.driver.failure = 'out of memory';
    await plugin.driver.start(directory);
    await failed('NodePrepareResources failed for claim default/mine: out of memory');
    expect(created).toEqual([]);
    plugin.driver.failure = undefined;
    await eventually(() => phase('web') === 'Running');
  });
});
