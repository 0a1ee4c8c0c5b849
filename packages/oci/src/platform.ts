import { arch } from 'node:process';

/** A platform in the terms of Go, as image indexes name it: `linux`, `amd64`, and for arm the variant, such as `v7`. */
export interface Platform {
  readonly os: string;
  readonly architecture: string;
  readonly variant?: string;
}

const architectures: Readonly<Record<string, string>> = { x64: 'amd64', ia32: '386', mips64el: 'mips64le' };

/** Returns the platform of this machine. */
export const machinePlatform = (): Platform => ({
  os: 'linux',
  architecture: architectures[arch] ?? (arch === 'ppc64' ? 'ppc64le' : arch),
  ...(arch === 'arm' && { variant: 'v7' }),
});

/** Parses `os/architecture[/variant]`, or returns undefined. */
export function parsePlatform(text: string): Platform | undefined {
  const [os = '', architecture = '', variant, ...more] = text.split('/');
  if (os === '' || architecture === '' || variant === '' || more.length > 0) return undefined;
  return normalizePlatform({ os, architecture, ...(variant !== undefined && { variant }) });
}

/** Returns the platform with the names that Go uses, and without the variant that is the default (github.com/containerd/platforms). */
export function normalizePlatform({ os, architecture, variant }: Platform): Platform {
  const lower = architecture.toLowerCase();
  if (lower === 'aarch64' || lower === 'arm64')
    return { os, architecture: 'arm64', ...(variant !== undefined && variant !== 'v8' && variant !== '8' && { variant }) };
  if (lower === 'armhf') return { os, architecture: 'arm', variant: 'v7' };
  if (lower === 'armel') return { os, architecture: 'arm', variant: 'v6' };
  if (lower === 'arm')
    return { os, architecture: 'arm', variant: variant === undefined || variant === '' ? 'v7' : variant.replace(/^(\d)/, 'v$1') };
  if (lower === 'x86_64' || lower === 'x86-64' || lower === 'amd64')
    return { os, architecture: 'amd64', ...(variant !== undefined && variant !== 'v1' && variant !== '' && { variant }) };
  if (lower === 'i386') return { os, architecture: '386' };
  return { os, architecture: lower, ...(variant !== undefined && variant !== '' && { variant }) };
}

/** The platforms that a machine runs, the best first: an arm v7 machine also runs v6 and v5, an arm64 machine arm v8 to v5. */
function runnable(wanted: Platform): readonly Platform[] {
  const { os, architecture, variant } = normalizePlatform(wanted);
  const number = Number(variant?.slice(1) ?? Number.NaN);
  const arms = (from: number): Platform[] =>
    Array.from({ length: Math.max(0, from - 4) }, (_, index) => ({ os, architecture: 'arm', variant: `v${from - index}` }));
  if (architecture === 'arm' && Number.isInteger(number) && number <= 8) return arms(number);
  if (architecture === 'arm64')
    return [...(variant === undefined ? [] : [{ os, architecture, variant }]), { os, architecture }, ...arms(8)];
  if (architecture === 'amd64' && Number.isInteger(number) && number <= 4)
    return [
      ...Array.from({ length: Math.max(0, number - 1) }, (_, index): Platform => ({ os, architecture, variant: `v${number - index}` })),
      { os, architecture },
    ];
  return [{ os, architecture, ...(variant !== undefined && { variant }) }];
}

const key = ({ os, architecture, variant = '' }: Platform): string => `${os}/${architecture}/${variant}`;
export const formatPlatform = ({ os, architecture, variant }: Platform): string =>
  `${os}/${architecture}${variant === undefined || variant === '' ? '' : `/${variant}`}`;

/** Returns the best of the candidates for a platform, the first of equal ones; undefined if the platform can run none. */
export function selectPlatform<T extends { readonly platform?: Platform | undefined }>(
  candidates: readonly T[],
  wanted: Platform,
): T | undefined {
  const byKey = new Map<string, T>();
  for (const candidate of candidates) {
    if (!candidate.platform) continue;
    const name = key(normalizePlatform(candidate.platform));
    if (!byKey.has(name)) byKey.set(name, candidate);
  }
  for (const platform of runnable(wanted)) {
    const found = byKey.get(key(platform));
    if (found) return found;
  }
  return undefined;
}
