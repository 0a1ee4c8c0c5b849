import { CsiClient } from '@oarlock/csi/csi-client';
import type { ControllerRpc, NodeRpc } from '@oarlock/csi/csi-messages';
import type { NodeInfo } from '@oarlock/csi/csi-types';
import { Backoff } from '@oarlock/client/backoff';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { DriverConfig } from './config.ts';

/** A driver that has answered: who it is and what it can. */
export interface CsiDriver {
  readonly name: string;
  readonly client: CsiClient;
  readonly config: DriverConfig;
  readonly node: NodeInfo;
  readonly nodeAbilities: ReadonlySet<NodeRpc>;
  readonly controllerAbilities: ReadonlySet<ControllerRpc>;
}

/** Asks until the driver answers. Rejects when the signal aborts. */
export async function meet(
  socket: string,
  config: DriverConfig,
  { clock, log, signal }: { clock: Clock; log: Logger; signal: AbortSignal },
): Promise<CsiDriver> {
  const client = new CsiClient(socket);
  const backoff = new Backoff({ firstMs: 20, longestMs: 5_000, jitter: 0.2, random: Math.random });
  const call = { signal };
  for (;;) {
    try {
      if (await client.ready(call)) {
        const [{ name }, services, node, nodeAbilities] = await Promise.all([
          client.info(call),
          client.services(call),
          client.nodeInfo(call),
          client.nodeAbilities(call),
        ]);
        const controllerAbilities = services.has('CONTROLLER_SERVICE') ? await client.controllerAbilities(call) : new Set<ControllerRpc>();
        return { name, client, config, node, nodeAbilities, controllerAbilities };
      }
    } catch (error) {
      if (signal.aborted) {
        client.close();
        throw signal.reason;
      }
      if (backoff.failures === 8) log.warn({ socket, error: String(error) }, 'the volume driver does not answer yet');
    }
    await clock.sleep(backoff.next(), signal);
  }
}
