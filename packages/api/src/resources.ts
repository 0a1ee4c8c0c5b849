/**
 * A descriptor for every resource: `pods`, `replicaSets`, `csiDrivers`. The plain name is the version that a default server prefers;
 * other versions, and what is served on opt-in only, carry theirs: `leaseCandidatesV1beta1`. The Event of events.k8s.io is `eventsV1`.
 */
export * from './generated/resources.ts';
