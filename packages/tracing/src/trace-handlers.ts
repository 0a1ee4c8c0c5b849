import { failure } from '@oarlock/api/status';
import { Authz } from '@oarlock/spi/authz';
import { Paths } from '@oarlock/spi/paths';
import { Spans, type RecordedSpan } from '@oarlock/spi/spans';
import { z } from 'zod';
import { slowestRollouts } from './rollouts.ts';
import { readableSpans } from './readable-spans.ts';

const maxSpans = 2_000;
const maxRollouts = 1_000;
const maxAttributes = 64; // per span
/**
 * The maximum number of characters of an attribute or error that is stored for a span of another process. The store bounds only the number
 * of spans, not their size.
 */
const maxStoredText = 4096;
const spanSchema = z.object({
  traceId: z.string().regex(/^[0-9a-f]{32}$/),
  spanId: z.string().regex(/^[0-9a-f]{16}$/),
  parentId: z
    .string()
    .regex(/^[0-9a-f]{16}$/)
    .optional(),
  links: z.array(z.object({ traceId: z.string().max(32), spanId: z.string().max(16) })).max(64),
  name: z.string().max(256),
  scope: z.string().max(128),
  process: z.string().max(256),
  start: z.number(),
  end: z.number(),
  attributes: z
    .record(z.string().max(128), z.union([z.string().max(16_384), z.number(), z.boolean()]))
    .refine((record) => Object.keys(record).length <= maxAttributes, 'too many attributes'),
  error: z.string().max(16_384).optional(),
});
const body = z.object({ spans: z.array(spanSchema).max(maxSpans) });

/**
 * Serves `GET /oarlock/v1/traces`. With `object=pods/default/a`, returns the spans of the object's latest change (with `all`: of every trace that
 * contains a span of the object; with `writes`: of none, only the spans of the object itself in `about`); with `trace=ID`, those of one trace; with `rollouts=N`, the latest N rollouts, the slowest first.
 * Spans have the values before changes of admission plugins only if the user may read the object.
 */
export const traceQueryHandler = Paths.plugin({
  id: 'trace-query',
  config: z.strictObject({}),
  needs: { spans: Spans, authz: Authz },
  create: ({ spans, authz }) => ({
    path: '/oarlock/v1/traces',
    methods: ['GET'],
    async handle({ query, identity }) {
      const { trace, rollouts } = query;
      const readable = (some: readonly RecordedSpan[]) => readableSpans(some, { identity, authz });
      if (trace !== undefined) return { code: 200, body: { about: [], spans: await readable(spans.trace(trace)) } };
      if (rollouts !== undefined) {
        const count = Number(rollouts);
        if (!Number.isInteger(count) || count < 1 || count > maxRollouts)
          return {
            code: 400,
            body: failure('BadRequest', `rollouts: Invalid value: ${JSON.stringify(rollouts)}: must be an integer from 1 to ${maxRollouts}`)
              .status,
          };
        return { code: 200, body: { rollouts: slowestRollouts(spans, count) } };
      }
      const found = spans.forObject(query['object'] ?? '');
      const about = await readable(found);
      if (query['writes'] !== undefined) return { code: 200, body: { about, spans: [] } };
      const selected = [...selectTraces(found, query['all'] !== undefined)].flatMap((traceId) => spans.trace(traceId));
      return { code: 200, body: { about, spans: await readable(selected) } };
    },
  }),
});

/**
 * Returns the IDs of the selected traces: all traces of the spans, or else the trace of the last external request that changed the object.
 * If there was no such request, the trace of the last span is selected.
 */
function selectTraces(about: readonly RecordedSpan[], all: boolean): Set<string> {
  if (all) return new Set(about.map(({ traceId }) => traceId));
  const chosen =
    about.findLast(({ parentId, attributes }) => parentId === undefined && attributes['oarlock.verb'] !== 'get') ?? about.at(-1);
  return new Set(chosen === undefined ? [] : [chosen.traceId]);
}

/** Serves `POST /oarlock/v1/spans`, which accepts spans of other processes. */
export const spanIngestHandler = Paths.plugin({
  id: 'span-intake',
  config: z.strictObject({}),
  needs: { spans: Spans },
  create: ({ spans }) => ({
    path: '/oarlock/v1/spans',
    methods: ['POST'],
    async handle(request) {
      const parsed = body.safeParse(request.body);
      if (!parsed.success) return { code: 400, body: { message: z.prettifyError(parsed.error) } };
      const { name: sender } = request.identity;
      spans.add((parsed.data.spans as readonly RecordedSpan[]).map((span) => storedSpan(span, sender)));
      return { code: 200, body: { taken: parsed.data.spans.length } };
    },
  }),
});

/** Copies at most `length` characters of a text. A slice alone would keep the whole text in memory. */
const copyText = (text: string, length: number): string => Buffer.from(text.slice(0, length)).toString();

/**
 * Returns the span to store for a span of another process, with texts of bounded length. The attribute `oarlock.sender` is always set to
 * the user that sent the span.
 */
function storedSpan({ attributes, error, ...span }: RecordedSpan, sender: string): RecordedSpan {
  let left = maxStoredText;
  const take = (text: string): string => {
    const stored = text.length <= left ? text : copyText(text, left);
    left -= stored.length;
    return stored;
  };
  const kept: (readonly [string, string | number | boolean])[] = [];
  for (const [key, value] of Object.entries(attributes)) {
    if (left < key.length) break;
    left -= key.length;
    kept.push([key, typeof value === 'string' ? take(value) : value]);
  }
  kept.push(['oarlock.sender', sender]);
  return { ...span, attributes: Object.fromEntries(kept), ...(error !== undefined && { error: take(error) }) };
}
