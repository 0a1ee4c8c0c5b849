const factors: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** Returns a quantity such as `250m` or `64Mi` as a number; 0 for text that is none. */
export function quantity(text: string | number | undefined): number {
  const [, value = '', suffix = ''] = /^([+-]?[\d.]+(?:[eE][+-]?\d+)?)([a-zA-Z]*)$/.exec(String(text ?? '')) ?? [];
  if (value === '') return 0;
  return Number(value) * (suffix === '' ? 1 : (factors[suffix] ?? 0));
}

const binary = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi'] as const;

/** Returns bytes with a binary unit, such as `1.5Gi`. */
export function formatBytes(bytes: number): string {
  const unit = Math.min(binary.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(bytes, 1)) / 10)));
  return `${Number((bytes / 2 ** (10 * unit)).toPrecision(3))}${binary[unit]}`;
}

/** Returns processor cores with three digits. */
export const formatCores = (cores: number): string => String(Number(cores.toPrecision(3)));
