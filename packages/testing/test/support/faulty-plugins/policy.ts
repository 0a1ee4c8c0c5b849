import { Policy } from '@oarlock/spi/policy';
import { config, orMisbehave } from './faults.ts';

/** Enforces nothing; the pod with the plugin's name misbehaves. */
export default Policy.plugin({
  id: 'policy-faulty',
  config,
  create: ({ config: settings }) => ({
    startForNode() {},
    protect: ({ name }) => (name === settings.name ? orMisbehave(settings, () => {}) : Promise.resolve()),
  }),
});
