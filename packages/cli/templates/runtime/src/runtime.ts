import {
  RuntimeError,
  type Container,
  type ContainerStats,
  type ContainerStatus,
  type Image,
  type PodSandbox,
  type PodSandboxStatus,
  type RuntimeCondition,
  type RuntimeDriver,
  type RuntimeEvent,
  type RuntimeInfo,
} from '@oarlock/spi/runtime';

const notImplemented = (call: string, task: string): Promise<never> =>
  Promise.reject(new RuntimeError('Unsupported', `implement ${call} in src/runtime.ts: ${task}`));

/** A container runtime that reports that it is not ready. */
export class __Class__ implements RuntimeDriver {
  readonly traits = { invokesCni: false, images: false, survivesRestart: false, networkNamespaces: false };

  async version(): Promise<RuntimeInfo> {
    return { name: '__ID__', version: '0.1.0', apiVersion: 'v1' };
  }
  async status(): Promise<readonly RuntimeCondition[]> {
    const skeleton = { status: false, reason: 'Skeleton', message: 'the methods of this runtime are not implemented yet' };
    return [
      { type: 'RuntimeReady', ...skeleton },
      { type: 'NetworkReady', ...skeleton },
    ];
  }
  /** Returns the state, addresses and creation time of a sandbox. @throws RuntimeError NotFound */
  async podSandboxStatus(id: string): Promise<PodSandboxStatus> {
    throw new RuntimeError('NotFound', `sandbox ${id} not found`);
  }
  /** Returns the state, times, exit code and reason of a container. @throws RuntimeError NotFound */
  async containerStatus(id: string): Promise<ContainerStatus> {
    throw new RuntimeError('NotFound', `container ${id} not found`);
  }
  async listPodSandbox(): Promise<readonly PodSandbox[]> {
    return [];
  }
  async listContainers(): Promise<readonly Container[]> {
    return [];
  }
  async listContainerStats(): Promise<readonly ContainerStats[]> {
    return [];
  }
  async listImages(): Promise<readonly Image[]> {
    return [];
  }
  async imageStatus(): Promise<Image | undefined> {
    return undefined;
  }
  runPodSandbox(): Promise<never> {
    return notImplemented('runPodSandbox', 'create the environment that the containers of a pod share, and resolve with its id');
  }
  stopPodSandbox(): Promise<never> {
    return notImplemented('stopPodSandbox', 'stop its containers and release its network; do nothing if it is stopped or does not exist');
  }
  removePodSandbox(): Promise<never> {
    return notImplemented('removePodSandbox', 'remove the sandbox with all its containers; do nothing if it does not exist');
  }
  createContainer(): Promise<never> {
    return notImplemented('createContainer', 'create a container in a sandbox without starting it, and resolve with its id');
  }
  startContainer(): Promise<never> {
    return notImplemented('startContainer', 'start a created container, with its output in the log file of its config');
  }
  stopContainer(): Promise<never> {
    return notImplemented('stopContainer', 'send SIGTERM, after the timeout SIGKILL, and resolve when it has exited');
  }
  removeContainer(): Promise<never> {
    return notImplemented('removeContainer', 'remove a container even if it runs; do nothing if it does not exist');
  }
  updateContainerResources(): Promise<never> {
    return notImplemented('updateContainerResources', 'change the limits of a running container');
  }
  reopenContainerLog(): Promise<never> {
    return notImplemented('reopenContainerLog', 'continue in a new file after the log file was renamed');
  }
  execSync(): Promise<never> {
    return notImplemented('execSync', 'run a command in a container, and resolve with its output and exit code');
  }
  exec(): Promise<never> {
    return notImplemented('exec', 'run a command in a container with streams, and resolve with its exit code');
  }
  attach(): Promise<never> {
    return notImplemented('attach', 'attach streams to a running container');
  }
  portForward(): Promise<never> {
    return notImplemented('portForward', 'open a byte stream to a port in the sandbox');
  }
  containerStats(): Promise<never> {
    return notImplemented('containerStats', 'return the CPU time and memory of a container');
  }
  pullImage(): Promise<never> {
    return notImplemented('pullImage', 'pull an image, and resolve with the reference to create containers from');
  }
  removeImage(): Promise<never> {
    return notImplemented('removeImage', 'remove an image; do nothing if it does not exist');
  }
  imageFsInfo(): Promise<never> {
    return notImplemented('imageFsInfo', 'return where images are stored and how much space they use');
  }
  async *events(signal: AbortSignal): AsyncGenerator<RuntimeEvent | 'resync'> {
    yield 'resync'; // afterwards the events of sandboxes and containers
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }
}
