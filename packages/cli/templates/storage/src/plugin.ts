import { Storage } from '@oarlock/spi/storage';
import { z } from 'zod';
import { __Class__ } from './storage.ts';

export default Storage.plugin({
  id: '__ID__',
  config: z.strictObject({ maxValueBytes: z.int().min(1_048_576).default(1_572_864) }),
  declares: { durable: false, shared: false },
  create: ({ config }, { clock }) => new __Class__({ clock, ...config }),
});
