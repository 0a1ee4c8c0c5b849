/** The options of `oarlock server join`. */
export interface ServerJoinOptions {
  readonly url?: string;
  readonly token?: string;
  readonly discoveryTokenCaCertHash?: string;
  readonly file?: string;
  readonly dataDir: string;
  readonly address?: string;
  readonly port?: number;
  readonly roles?: string;
  readonly nodeName?: string;
  readonly detach: boolean;
}
