/**
 * A handle for every resource: `pods`, `replicaSets`, `csiDrivers`. The plain name is the version that a default server prefers; other
 * versions and opt-in resources have a suffix: `leaseCandidatesV1beta1`. The Event of events.k8s.io is `eventsV1`.
 */
export * from './generated/resources.ts';
