<?php

declare(strict_types=1);

namespace PartnerSdk;

/** Keeps tokens, which are secrets: encrypt them where you keep them. */
interface TokenStore
{
    public function read(string $link): ?Tokens;

    /**
     * Calls $change with the current tokens of a link, stores what it returns, and returns it; null forgets them. If $change throws,
     * nothing changes. For one link only one $change runs at a time, across all your processes: in a database that is a transaction
     * with SELECT … FOR UPDATE.
     *
     * @param callable(?Tokens): ?Tokens $change
     */
    public function update(string $link, callable $change): ?Tokens;
}
