<?php

declare(strict_types=1);

namespace PartnerSdk;

/** Keeps tokens in a private folder of one machine, a file for each link: for tests, and as an example. */
final class FileTokenStore implements TokenStore
{
    public function __construct(private readonly string $folder)
    {
        if (!is_dir($folder) && !mkdir($folder, 0700, true) && !is_dir($folder)) {
            throw new \RuntimeException("$folder cannot be created");
        }
    }

    public function read(string $link): ?Tokens
    {
        $raw = is_file($this->path($link)) ? file_get_contents($this->path($link)) : '';
        return $raw === '' || $raw === false ? null : new Tokens(...json_decode($raw, true, 512, JSON_THROW_ON_ERROR));
    }

    public function update(string $link, callable $change): ?Tokens
    {
        $lock = fopen($this->path($link) . '.lock', 'c');
        if ($lock === false || !flock($lock, LOCK_EX)) {
            throw new \RuntimeException('the link cannot be locked');
        }
        try {
            $next = $change($this->read($link));
            $temp = $this->path($link) . '.new';
            // A file that is renamed is never read half-written.
            if (file_put_contents($temp, $next === null ? '' : json_encode($next, JSON_THROW_ON_ERROR)) === false || !rename($temp, $this->path($link))) {
                throw new \RuntimeException('the tokens cannot be stored');
            }
            return $next;
        } finally {
            fclose($lock);
        }
    }

    private function path(string $link): string
    {
        return $this->folder . '/' . hash('sha256', $link);
    }
}
