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

const toWrite = (call: string, what: string): Promise<never> =>
  Promise.reject(new RuntimeError('Unsupported', `write ${call} in src/runtime.ts: ${what}`));

/** Runs nothing yet, and says so. */
export class __Class__ implements RuntimeDriver {
  readonly traits = { invokesCni: false, images: false, survivesRestart: false, networkNamespaces: false };

  async version(): Promise<RuntimeInfo> {
    return { name: '__ID__', version: '0.1.0', apiVersion: 'v1' };
  }
  async status(): Promise<readonly RuntimeCondition[]> {
    const skeleton = { status: false, reason: 'Skeleton', message: 'its methods are still to be written' };
    return [
      { type: 'RuntimeReady', ...skeleton },
      { type: 'NetworkReady', ...skeleton },
    ];
  }
  /** Of one that there is: its state, addresses and when it was made. */
  async podSandboxStatus(id: string): Promise<PodSandboxStatus> {
    throw new RuntimeError('NotFound', `there is no sandbox ${id}`);
  }
  /** Of one that there is: its state, times, exit code and reason. */
  async containerStatus(id: string): Promise<ContainerStatus> {
    throw new RuntimeError('NotFound', `there is no container ${id}`);
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
    return toWrite('runPodSandbox', 'make what the containers of a pod share, and resolve with its id');
  }
  stopPodSandbox(): Promise<never> {
    return toWrite('stopPodSandbox', 'stop its containers and give back its network; again, and for what never was, it does nothing');
  }
  removePodSandbox(): Promise<never> {
    return toWrite('removePodSandbox', 'remove the sandbox with all containers in it; again, and for what never was, it does nothing');
  }
  createContainer(): Promise<never> {
    return toWrite('createContainer', 'make a container in a sandbox without starting it, and resolve with its id');
  }
  startContainer(): Promise<never> {
    return toWrite('startContainer', 'start a container that was created, with its output in the log file of its config');
  }
  stopContainer(): Promise<never> {
    return toWrite('stopContainer', 'send SIGTERM, SIGKILL after the timeout, and resolve when it has exited');
  }
  removeContainer(): Promise<never> {
    return toWrite('removeContainer', 'remove a container, also one that runs; again, and for what never was, it does nothing');
  }
  updateContainerResources(): Promise<never> {
    return toWrite('updateContainerResources', 'change the limits of a container that runs');
  }
  reopenContainerLog(): Promise<never> {
    return toWrite('reopenContainerLog', 'go on in a new file where the log file was put aside');
  }
  execSync(): Promise<never> {
    return toWrite('execSync', 'run a command in a container, and resolve with its output and exit code');
  }
  exec(): Promise<never> {
    return toWrite('exec', 'run a command in a container with streams, and resolve with its exit code');
  }
  attach(): Promise<never> {
    return toWrite('attach', 'join the streams of a container that runs');
  }
  portForward(): Promise<never> {
    return toWrite('portForward', 'open a byte stream to a port inside the sandbox');
  }
  containerStats(): Promise<never> {
    return toWrite('containerStats', 'say the processor time and memory of a container');
  }
  pullImage(): Promise<never> {
    return toWrite('pullImage', 'have an image come, and resolve with the reference to create containers from');
  }
  removeImage(): Promise<never> {
    return toWrite('removeImage', 'remove an image; one that is not there is removed');
  }
  imageFsInfo(): Promise<never> {
    return toWrite('imageFsInfo', 'say where images are and how much they take');
  }
  async *events(signal: AbortSignal): AsyncGenerator<RuntimeEvent | 'resync'> {
    yield 'resync'; // and then what happens to sandboxes and containers
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }
}
