import { Runtime } from '@oarlock/spi/runtime';
import { z } from 'zod';
import { SimulatedRuntime } from './simulated-runtime.ts';

const milliseconds = z.number().int().min(0).max(3_600_000);

export default Runtime.plugin({
  id: 'runtime-simulated',
  config: z.strictObject({
    startDelayMs: milliseconds.default(0),
    pullDelayMs: milliseconds.default(0),
    addresses: z
      .string()
      .regex(/^\d{1,3}(\.\d{1,3}){3}\/([0-9]|[12][0-9]|30)$/, 'an IPv4 range such as 10.128.0.0/9')
      .default('10.128.0.0/9'),
    images: z.array(z.string().min(1)).default([]),
    missingImages: z.array(z.string().min(1)).default([]),
  }),
  declares: { simulated: true, images: true, invokesCni: false, networkNamespaces: false },
  create: ({ config }, { clock }) => new SimulatedRuntime(clock, config),
});
