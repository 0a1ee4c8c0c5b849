import { CsiClient } from '@oarlock/csi/csi-client';
import type { ControllerRpc, GroupControllerRpc, NodeRpc } from '@oarlock/csi/csi-messages';
import type { NodeInfo } from '@oarlock/csi/csi-types';
import { Backoff } from '@oarlock/primitives/backoff';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { DriverConfig } from './config.ts';

/** A connected CSI driver: its name, node information and capabilities. */
export interface CsiDriver {
  readonly name: string;
  readonly client: CsiClient;
  readonly config: DriverConfig;
  readonly node: NodeInfo;
  readonly nodeCapabilities: ReadonlySet<NodeRpc>;
  readonly controllerCapabilities: ReadonlySet<ControllerRpc>;
  readonly groupCapabilities: ReadonlySet<GroupControllerRpc>;
}

/** Connects to a CSI driver, and retries until the driver answers. Rejects when the signal aborts. */
export async function connectDriver(
  socket: string,
  config: DriverConfig,
  { clock, log, signal }: { clock: Clock; log: Logger; signal: AbortSignal },
): Promise<CsiDriver> {
  const client = new CsiClient(socket);
  try {
    return await describeDriver(client, { socket, config, clock, log, signal });
  } catch (error) {
    client.close();
    throw error;
  }
}

interface Connection {
  readonly socket: string;
  readonly config: DriverConfig;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

async function describeDriver(client: CsiClient, { socket, config, clock, log, signal }: Connection): Promise<CsiDriver> {
  const backoff = new Backoff({ firstMs: 20, longestMs: 5_000, jitter: 0.2, random: Math.random });
  const call = { signal };
  for (;;) {
    try {
      if (await client.probe(call)) {
        const [{ name }, services, node, nodeCapabilities] = await Promise.all([
          client.getPluginInfo(call),
          client.getPluginCapabilities(call),
          client.nodeGetInfo(call),
          client.nodeGetCapabilities(call),
        ]);
        const controllerCapabilities = services.has('CONTROLLER_SERVICE')
          ? await client.controllerGetCapabilities(call)
          : new Set<ControllerRpc>();
        const groupCapabilities = services.has('GROUP_CONTROLLER_SERVICE')
          ? await client.groupControllerGetCapabilities(call)
          : new Set<GroupControllerRpc>();
        return { name, client, config, node, nodeCapabilities, controllerCapabilities, groupCapabilities };
      }
    } catch (error) {
      signal.throwIfAborted();
      if (backoff.failures === failuresUntilWarning) log.warn({ socket, error: String(error) }, 'the CSI driver does not answer yet');
    }
    await clock.sleep(backoff.next(), signal);
  }
}

/** The number of failed attempts before a warning. They take about five seconds, the time that a driver process may need to start. */
const failuresUntilWarning = 8;
