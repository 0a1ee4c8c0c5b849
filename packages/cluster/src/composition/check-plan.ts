import { featureWarnings } from '@oarlock/api/component-helpers/feature-gates';
import { WiringError } from '@oarlock/kernel/errors';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cluster, Keys } from '@oarlock/spi/cluster';
import { LocalNodes } from '@oarlock/spi/local-nodes';
import { Loopback } from '@oarlock/spi/loopback';
import { Process } from '@oarlock/spi/process';
import { Spans } from '@oarlock/spi/spans';
import { sortFaults } from '../cluster-file/sort-faults.ts';
import { unknownNameFaults } from './unknown-names.ts';
import { placePlugins } from './create-plan.ts';
import { leaderElectionWarnings } from './leader-election-warnings.ts';
import { missingPartFaults, missingPartWarnings } from './missing-parts.ts';
import type { Plan } from './plan.ts';

/** Checks a plan without creating any plugin. @throws WiringError with every fault, if the plan has faults */
export function checkPlan(planned: Plan): void {
  const host = new PluginHost();
  for (const slot of [Cluster, Keys, Client, Informers, Events, Loopback, LocalNodes, Spans, Process]) host.declareProvided(slot);
  placePlugins(host, planned);
  const faults = sortFaults([...host.check(), ...unknownNameFaults(planned)]);
  if (faults.length > 0) throw new WiringError(faults);
  const missing = missingPartFaults(planned);
  if (missing.length > 0) throw new WiringError(missing);
}

/** Checks what the plugin host does not check when it starts. @throws WiringError with every fault, if the plan has faults */
export function checkRunPlan(planned: Plan): void {
  const unknown = unknownNameFaults(planned);
  if (unknown.length > 0) throw new WiringError(unknown);
  const missing = missingPartFaults(planned);
  if (missing.length > 0) throw new WiringError(missing);
}

/** Returns warnings for the user about a plan without faults, one sentence each. */
export const planWarnings = (planned: Plan): readonly string[] => [
  ...leaderElectionWarnings(planned),
  ...missingPartWarnings(planned),
  ...featureWarnings(planned.facts),
];
