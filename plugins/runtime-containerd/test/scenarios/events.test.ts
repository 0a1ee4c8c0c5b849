import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import type { RuntimeEvent } from '@oarlock/spi/runtime';
import { afterEach, describe, expect, it } from 'vitest';
import { codec } from '../../src/cri/codec.ts';
import { ContainerdRuntime } from '../../src/containerd-runtime.ts';
import { CriServer, noSandboxes, type Methods } from '../support/cri-server.ts';

const cleanup: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const one of cleanup.splice(0).reverse()) await one();
});

async function open(methods: Methods) {
  const server = await CriServer.start(methods);
  cleanup.push(() => server.dispose());
  const driver = new ContainerdRuntime(
    { socket: server.socket, requestTimeoutSeconds: 5, imagePullTimeoutSeconds: 5, streamIdleSeconds: 5 },
    { clock: systemClock, log: silentLogger },
  );
  await driver.start(AbortSignal.timeout(5_000));
  cleanup.push(() => driver.stop());
  const stop = new AbortController();
  const items = driver.events(stop.signal)[Symbol.asyncIterator]();
  const next = async () => (await items.next()).value as RuntimeEvent | 'resync' | undefined;
  return { server, driver, next, stop };
}

/** A CRI server with one sandbox `s` and one container `c` in it, whose state the test changes. */
function oneContainer() {
  const state = { container: 'CONTAINER_RUNNING', reason: '', looked: 0 };
  const container = { id: 'c', podSandboxId: 's', metadata: { name: 'main', attempt: 0 } };
  const unary: Methods['unary'] = {
    ...noSandboxes,
    ListPodSandbox: () => ({ items: [{ id: 's', metadata: { name: 'p' } }] }),
    ListContainers: () => ({ containers: [{ ...container, state: state.container }] }),
    ContainerStatus: () => {
      state.looked += 1;
      return { status: { ...container, state: state.container, reason: state.reason } };
    },
  };
  return { state, unary };
}

const criEvent = (containerId: string, type: string) => ({
  containerId,
  containerEventType: `CONTAINER_${type}_EVENT`,
  createdAt: 1_700_000_000_000_000_000,
  podSandboxStatus: { id: 's' },
});
const envelope = (topic: string, message: string, value: object) => ({
  timestamp: { seconds: 1_700_000_000, nanos: 5e6 },
  namespace: 'k8s.io',
  topic,
  event: { typeUrl: message, value: codec('containerd', message).encode(value) },
});

/** containerd's event service: forwarded events return to the subscriber, as in the real one. */
function eventService() {
  let subscriber: ((item: object) => void) | undefined;
  let waiting: (() => void) | undefined;
  return {
    streams: {
      Subscribe: (send: (item: object) => void) => {
        subscriber = send;
        waiting?.();
      },
    },
    Forward: (request: Record<string, unknown>) => {
      subscriber?.(request['envelope'] as object);
      return {};
    },
    send: (item: object) => subscriber?.(item),
    drop: () => {
      subscriber = undefined;
    },
    subscribed: () =>
      subscriber
        ? Promise.resolve()
        : new Promise<void>((resolve) => {
            waiting = resolve;
          }),
  };
}

describe('events', () => {
  it('come from CRI if the runtime is not containerd', async () => {
    let send: (item: object) => void = () => {};
    const { unary } = oneContainer();
    const { next } = await open({
      unary,
      streams: {
        GetContainerEvents: (out) => {
          send = out;
        },
      },
    });
    expect(await next()).toBe('resync');
    for (const type of ['CREATED', 'STARTED', 'STOPPED', 'DELETED']) send(criEvent('c', type));
    send(criEvent('s', 'STOPPED'));
    for (const type of ['CREATED', 'STARTED', 'STOPPED', 'DELETED'])
      expect(await next()).toEqual({ type, sandboxId: 's', containerId: 'c', at: 1_700_000_000_000 });
    expect(await next()).toEqual({ type: 'STOPPED', sandboxId: 's', at: 1_700_000_000_000 });
  });

  it('of containerd are emitted when CRI reports the new state', async () => {
    const { state, unary } = oneContainer();
    const service = eventService();
    const { next } = await open({ unary: { ...unary, Forward: service.Forward }, streams: service.streams });
    expect(await next()).toBe('resync');
    service.send(envelope('/tasks/delete', 'TaskDelete', { containerId: 'c', id: 'c' }));
    await expect.poll(() => state.looked).toBeGreaterThan(2);
    state.container = 'CONTAINER_EXITED';
    expect(await next()).toEqual({ type: 'STOPPED', sandboxId: 's', containerId: 'c', at: 1_700_000_000_005 });
  });

  it('of exec processes and unknown containers are not emitted', async () => {
    const { state, unary } = oneContainer();
    state.container = 'CONTAINER_EXITED';
    const service = eventService();
    const { next } = await open({ unary: { ...unary, Forward: service.Forward }, streams: service.streams });
    expect(await next()).toBe('resync');
    service.send(envelope('/tasks/delete', 'TaskDelete', { containerId: 'c', id: 'exec-1' }));
    service.send(envelope('/tasks/delete', 'TaskDelete', { containerId: 'stranger', id: 'stranger' }));
    service.send(envelope('/tasks/delete', 'TaskDelete', { containerId: 'c', id: '' }));
    expect(await next()).toMatchObject({ type: 'STOPPED', containerId: 'c' });
  });

  it('of a killed container wait for its OOM event', async () => {
    const { state, unary } = oneContainer();
    const service = eventService();
    const { next } = await open({ unary: { ...unary, Forward: service.Forward }, streams: service.streams });
    expect(await next()).toBe('resync');
    state.container = 'CONTAINER_EXITED';
    service.send(envelope('/tasks/delete', 'TaskDelete', { containerId: 'c', id: 'c', exitStatus: 137 }));
    service.send(envelope('/tasks/oom', 'TaskOOM', { containerId: 'c' }));
    await expect.poll(() => state.looked).toBeGreaterThan(2);
    state.reason = 'OOMKilled';
    expect(await next()).toMatchObject({ type: 'STOPPED', containerId: 'c' });
    // the OOM event came after the exit: STOPPED is emitted again
    expect(await next()).toMatchObject({ type: 'STOPPED', containerId: 'c' });
  });

  it('of a container killed for another reason are delayed', async () => {
    const { state, unary } = oneContainer();
    const service = eventService();
    const { next } = await open({ unary: { ...unary, Forward: service.Forward }, streams: service.streams });
    expect(await next()).toBe('resync');
    state.container = 'CONTAINER_EXITED';
    service.send(envelope('/tasks/delete', 'TaskDelete', { containerId: 'c', id: 'c', exitStatus: 137 }));
    expect(await next()).toMatchObject({ type: 'STOPPED', containerId: 'c' });
  });

  it('resume with resync after the runtime was down', async () => {
    const { unary } = oneContainer();
    let send: (item: object) => void = () => {};
    const methods: Methods = {
      unary: unary ?? {},
      streams: {
        GetContainerEvents: (out) => {
          send = out;
        },
      },
    };
    const { server, next } = await open(methods);
    expect(await next()).toBe('resync');
    server.end();
    await server.restart(methods);
    expect(await next()).toBe('resync');
    send(criEvent('c', 'STOPPED'));
    expect(await next()).toMatchObject({ type: 'STOPPED', containerId: 'c' });
  });

  it('resume with resync after the runtime ended the stream', async () => {
    const { unary } = oneContainer();
    let finish: () => void = () => {};
    const { next } = await open({
      unary: unary ?? {},
      streams: {
        GetContainerEvents: (_send, end) => {
          finish = end;
        },
      },
    });
    expect(await next()).toBe('resync');
    finish();
    expect(await next()).toBe('resync');
  });

  it('end when the signal aborts', async () => {
    const { next, stop } = await open({ unary: noSandboxes ?? {}, streams: { GetContainerEvents: () => {} } });
    expect(await next()).toBe('resync');
    stop.abort();
    expect(await next()).toBeUndefined();
  });

  it('end when the driver stops', async () => {
    const { driver, next } = await open({ unary: noSandboxes ?? {}, streams: { GetContainerEvents: () => {} } });
    expect(await next()).toBe('resync');
    await driver.stop();
    expect(await next()).toBeUndefined();
  });

  it('fail if the runtime has no event stream', async () => {
    const { next } = await open({ unary: noSandboxes ?? {} });
    await expect(next()).rejects.toMatchObject({ name: 'RuntimeError', code: 'Unsupported' });
  });
});
