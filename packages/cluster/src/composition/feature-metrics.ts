import { FeatureGates, type FeatureSettings } from '@oarlock/api/component-helpers/feature-gates';
import { Gauge, Registry } from 'prom-client';

/** Returns a registry with the values of the feature gates, which all components of a process report alike. GA features have no stage, as upstream. */
export function featureMetrics(settings: FeatureSettings): Registry {
  const registry = new Registry();
  const gauge = new Gauge({
    name: 'kubernetes_feature_enabled',
    help: 'This metric records the data about the stage and enablement of a k8s feature.',
    labelNames: ['name', 'stage'],
    registers: [registry],
  });
  for (const { name, stage, enabled } of new FeatureGates(settings).all())
    gauge.set({ name, stage: stage === 'GA' ? '' : stage }, enabled ? 1 : 0);
  return registry;
}
