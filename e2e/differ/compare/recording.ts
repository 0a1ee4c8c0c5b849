import { createReadStream, createWriteStream } from 'node:fs';
import { finished } from 'node:stream/promises';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { InputError, type Answer, type RunNames } from '../request.ts';

export const recordingFormat = 'oarlock-differ-recording';
export const recordingVersion = 1;

const headSchema = z.strictObject({
  format: z.literal(recordingFormat),
  version: z.literal(recordingVersion),
  recordedAt: z.iso.datetime(),
  /** The `gitVersion` of the recorded server. */
  serverVersion: z.string(),
  server: z.url(),
  names: z.strictObject({ run: z.string(), namespace: z.string() }),
  seed: z.int(),
});
const answerSchema = z.strictObject({
  status: z.int(),
  headers: z.record(z.string(), z.string()),
  body: z.string(),
  encoding: z.enum(['utf8', 'base64']),
});
const lineSchema = z.strictObject({ case: z.string(), answers: z.array(answerSchema) });

export interface RecordingHead {
  readonly recordedAt: string;
  readonly serverVersion: string;
  readonly server: string;
  readonly names: RunNames;
  readonly seed: number;
}

/** The answers of a reference cluster by the id of their case. */
export interface Recording {
  readonly head: RecordingHead;
  readonly answers: ReadonlyMap<string, readonly Answer[]>;
}

/** Writes a recording: one JSON document per line, the head first, then one line per case. */
export class RecordingWriter {
  readonly #stream: NodeJS.WritableStream;

  constructor(file: string, head: RecordingHead) {
    this.#stream = createWriteStream(file, { mode: 0o600 });
    this.#write({ format: recordingFormat, version: recordingVersion, ...head });
  }

  add(caseId: string, answers: readonly Answer[]): void {
    this.#write({
      case: caseId,
      answers: answers.map(({ status, headers, body }) => {
        const text = body.toString('utf8');
        const isText = Buffer.from(text, 'utf8').equals(body);
        return { status, headers, body: isText ? text : body.toString('base64'), encoding: isText ? 'utf8' : 'base64' };
      }),
    });
  }

  /** @throws Error if the file could not be written */
  async close(): Promise<void> {
    this.#stream.end();
    await finished(this.#stream);
  }

  #write(line: object): void {
    // line separators of Unicode also end a line of `readline`
    this.#stream.write(`${JSON.stringify(line).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')}\n`);
  }
}

/** Reads a recording. @throws InputError with the line number if the file is no recording of this version */
export async function readRecording(file: string): Promise<Recording> {
  const answers = new Map<string, readonly Answer[]>();
  let head: RecordingHead | undefined;
  let number = 0;
  for await (const line of createInterface({ input: createReadStream(file, 'utf8') })) {
    number += 1;
    if (head === undefined) {
      const { format: _, version: __, ...rest } = parseLine(headSchema, line, `${file}:${number}`);
      head = rest;
      continue;
    }
    const { case: id, answers: recorded } = parseLine(lineSchema, line, `${file}:${number}`);
    answers.set(
      id,
      recorded.map(({ encoding, body, ...rest }) => ({ ...rest, body: Buffer.from(body, encoding) })),
    );
  }
  if (head === undefined) throw new InputError(`${file} is empty`);
  return { head, answers };
}

function parseLine<T>(schema: z.ZodType<T>, line: string, place: string): T {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw new InputError(`${place}: ${(error as Error).message}`, { cause: error });
  }
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw new InputError(`${place}: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}
