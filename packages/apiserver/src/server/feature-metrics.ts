import { Gauge, type Registry } from 'prom-client';

/** The feature gates of Kubernetes 1.36 that clients query: the name, the stage upstream, and whether this server implements the feature. */
const features: readonly (readonly [name: string, stage: '' | 'ALPHA' | 'BETA', enabled: boolean])[] = [
  ['APIResponseCompression', 'BETA', true],
  ['AuthorizeWithSelectors', '', true],
  ['CBORServingAndStorage', 'ALPHA', false],
  ['ConsistentListFromCache', '', true],
  ['CoordinatedLeaderElection', 'BETA', false],
  ['InPlacePodVerticalScaling', '', true],
  ['MutatingAdmissionPolicy', '', true],
  ['RetryGenerateName', '', true],
  ['ShardedListAndWatch', 'ALPHA', false],
  ['SidecarContainers', '', true],
  ['StorageVersionAPI', 'ALPHA', false],
  ['StreamingCollectionEncodingToJSON', '', true],
  ['StreamingCollectionEncodingToProtobuf', '', true],
  ['WatchList', 'BETA', true],
];

export function registerFeatureMetrics(registry: Registry): void {
  const gauge = new Gauge({
    name: 'kubernetes_feature_enabled',
    help: 'Whether a feature is enabled, with its stage.',
    labelNames: ['name', 'stage'],
    registers: [registry],
  });
  for (const [name, stage, enabled] of features) gauge.set({ name, stage }, enabled ? 1 : 0);
}
