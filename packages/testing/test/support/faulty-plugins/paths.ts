import { Paths } from '@oarlock/spi/paths';
import { config, misbehave } from './faults.ts';

/** Serves the path `/faulty`. */
export default Paths.plugin({
  id: 'paths-faulty',
  config,
  create: ({ config: settings }) => ({
    path: '/faulty',
    methods: ['GET'],
    async handle() {
      await misbehave(settings);
      return { code: 200, body: {} };
    },
  }),
});
