import { WiringError } from '@oarlock/kernel/errors';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cluster, Keys } from '@oarlock/spi/cluster';
import { LocalNodes } from '@oarlock/spi/local-nodes';
import { Loopback } from '@oarlock/spi/loopback';
import { Process } from '@oarlock/spi/process';
import { Spans } from '@oarlock/spi/spans';
import { inOrder } from './fault-order.ts';
import { unknownNames } from './named-in-settings.ts';
import { missingRuntime, placeAll, type Plan } from './plan.ts';

/** Everything that can be said of a composition without creating any of it. @throws WiringError with every fault */
export function checkPlan(planned: Plan): void {
  const host = new PluginHost();
  for (const slot of [Cluster, Keys, Client, Informers, Events, Loopback, LocalNodes, Spans, Process]) host.announce(slot);
  placeAll(host, planned);
  const faults = inOrder([...host.check(), ...unknownNames(planned)]);
  if (faults.length > 0) throw new WiringError(faults);
  const missing = missingRuntime(planned);
  if (missing !== undefined) throw new WiringError([missing]);
}
