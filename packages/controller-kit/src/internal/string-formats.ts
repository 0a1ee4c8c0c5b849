/** A format in a CustomResourceDefinition, and whether the pattern that zod has for its own format restricts values further. */
export interface StringFormat {
  readonly format?: string;
  readonly keepsPattern: boolean;
}

/** The formats of zod that the API server validates under the same or another name. */
const formats: Readonly<Record<string, StringFormat>> = {
  email: { format: 'email', keepsPattern: false },
  uuid: { format: 'uuid', keepsPattern: false },
  uri: { format: 'uri', keepsPattern: false },
  'date-time': { format: 'date-time', keepsPattern: false },
  date: { format: 'date', keepsPattern: false },
  ipv4: { format: 'ipv4', keepsPattern: false },
  ipv6: { format: 'ipv6', keepsPattern: false },
  hostname: { format: 'hostname', keepsPattern: false },
  mac: { format: 'mac', keepsPattern: false },
  cidrv4: { format: 'cidr', keepsPattern: true },
  cidrv6: { format: 'cidr', keepsPattern: true },
  base64: { format: 'byte', keepsPattern: false },
  // the format of a Go duration, which goDuration() sets and which has no pattern
  'go-duration': { format: 'duration', keepsPattern: false },
};

/** Returns the format to declare for a format of zod. Formats that the API server does not know are left to their pattern. */
export function formatOf(format: string | undefined): StringFormat {
  return (format !== undefined && Object.hasOwn(formats, format) ? formats[format] : undefined) ?? { keepsPattern: true };
}

/** Returns true if RE2, which the API server uses, can have the pattern: without lookarounds and backreferences. */
export const isLinearPattern = (pattern: string): boolean => !/\(\?(?:[=!]|<[=!])|\\[1-9]|\\k</.test(pattern);
