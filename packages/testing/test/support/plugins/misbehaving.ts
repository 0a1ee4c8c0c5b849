import { Admission, allow, deny } from '@oarlock/spi/admission';
import { z } from 'zod';

const eaten: unknown[] = [];

/** Misbehaves as the annotation of the request specifies. */
export default Admission.plugin({
  id: 'admission-misbehaving',
  config: z.strictObject({ mark: z.string().default('first') }),
  create: ({ config }, { log }) => ({
    matches: [{ resources: ['configmaps'], operations: ['CREATE'] }],
    mutate(request) {
      const { object } = request;
      switch (object?.metadata?.annotations?.['do']) {
        case 'throw':
          throw new Error('I have had enough');
        case 'hang':
          return new Promise(() => {});
        case 'loop':
          for (;;);
        case 'eat':
          for (;;) eaten.push(Array.from({ length: 10_000 }, (_, index) => ({ index })));
        // falls through
        case 'write':
          (object.metadata as { labels?: unknown }).labels = {};
          return object;
        case 'nothing':
          return undefined as never;
        case 'deny':
          return deny('not this one');
        case 'warn':
          request.warn('be careful');
          log.info({}, 'warned');
          break;
      }
      if (object === undefined) return allow;
      return { ...object, metadata: { ...object.metadata, labels: { ...object.metadata?.labels, mark: config.mark } } };
    },
  }),
});
