import { parseArgs } from 'node:util';

export const usage = `npm run differ -- [--reference KUBECONFIG | --replay FILE] [OPTION ...]
  --reference KUBECONFIG  compare the answers of this cluster with those of the subject
  --replay FILE           compare the answers of a recording with those of the subject
  --record FILE           write the answers of the reference to a file
  --subject KUBECONFIG    the cluster to test; default: an API server that this command starts
  --only TEXT             only cases or checks whose name contains the text; may be repeated
  --max-requests N        end after N compared requests (default 5000)
  --seconds N             end after N seconds (default 300)
  --seed N                the order of the generated cases (default 1; a replay uses the recorded one)
  --accepted FILE         accepted differences; default: the file of this command
  --verbose               print each difference, not only one of each class
Without --reference and --replay the answers of the subject are compared with each other.
Exit codes: 0 no difference, 1 an unaccepted difference, 2 invalid arguments.`;

export interface DifferOptions {
  readonly reference?: string;
  readonly replay?: string;
  readonly record?: string;
  readonly subject?: string;
  readonly accepted?: string;
  readonly only: readonly string[];
  readonly maxRequests: number;
  readonly seconds: number;
  readonly seed: number;
  readonly verbose: boolean;
  readonly help: boolean;
}

/** The error of invalid arguments. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

const text = { type: 'string' } as const;

/** Parses the arguments of the command. @throws UsageError if they are invalid */
export function parseOptions(args: readonly string[]): DifferOptions {
  const values = parse(args);
  const { reference, replay, record, subject, accepted } = values;
  if (reference !== undefined && replay !== undefined) throw new UsageError('--reference and --replay exclude each other');
  if (record !== undefined && reference === undefined) throw new UsageError('--record needs --reference');
  return {
    ...(reference !== undefined && { reference }),
    ...(replay !== undefined && { replay }),
    ...(record !== undefined && { record }),
    ...(subject !== undefined && { subject }),
    ...(accepted !== undefined && { accepted }),
    only: values.only ?? [],
    maxRequests: positive('--max-requests', values['max-requests'], 5000),
    seconds: positive('--seconds', values.seconds, 300),
    seed: positive('--seed', values.seed, 1),
    verbose: values.verbose === true,
    help: values.help === true,
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        reference: text,
        replay: text,
        record: text,
        subject: text,
        accepted: text,
        only: { type: 'string', multiple: true },
        'max-requests': text,
        seconds: text,
        seed: text,
        verbose: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    }).values;
  } catch (error) {
    throw new UsageError((error as Error).message, { cause: error });
  }
}

function positive(name: string, value: string | undefined, standard: number): number {
  if (value === undefined) return standard;
  const number = Number(value);
  if (!Number.isSafeInteger(number) || number < 1) throw new UsageError(`${name}: ${value} is no positive integer`);
  return number;
}
