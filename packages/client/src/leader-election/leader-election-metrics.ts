import { Gauge, type Registry } from 'prom-client';

/** Receives whether a candidate leads. */
export interface LeaderElectionMetrics {
  leading(isLeader: boolean): void;
}

/** Registers client-go's metric of leader election for the Lease with this name. The value is 0 until the candidate leads. */
export function leaderElectionMetrics(registry: Registry, lease: string): LeaderElectionMetrics {
  const name = 'leader_election_master_status';
  const gauge =
    (registry.getSingleMetric(name) as Gauge<'name'> | undefined) ??
    new Gauge({
      name,
      help: "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease.",
      registers: [registry],
      labelNames: ['name'],
    });
  const set = (isLeader: boolean) => gauge.set({ name: lease }, isLeader ? 1 : 0);
  set(false);
  return { leading: set };
}
